import { describe, expect, it } from "vitest";
import { encodeCompileOptions } from "../../src/pjrt/index.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const excessPrecisionOff = `3a200a1a${hex(Buffer.from("xla_allow_excess_precision"))}12021000`;

/** Top-level fields of a message: [field, wire type 2 content or varint]. */
function fields(message: Uint8Array): [number, Uint8Array | number][] {
  const bytes = Uint8Array.from(message);
  const result: [number, Uint8Array | number][] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++]!;
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    if ((tag & 7) === 0) result.push([tag >> 3, varint()]);
    else if ((tag & 7) === 1) {
      result.push([tag >> 3, bytes.slice(at, at + 8)]);
      at += 8;
    } else {
      const length = varint();
      result.push([tag >> 3, bytes.slice(at, at + length)]);
      at += length;
    }
  }
  return result;
}

/** The override map as text: name → field number and content of its value. */
function overrides(bytes: Uint8Array): Record<string, [number, Uint8Array | number]> {
  return Object.fromEntries(
    fields(bytes)
      .filter(([field]) => field === 7)
      .map(([, entry]) => {
        const [key, value] = fields(entry as Uint8Array);
        return [Buffer.from(key![1] as Uint8Array).toString(), fields(value![1] as Uint8Array)[0]!];
      }),
  );
}

describe("compile options", () => {
  it("of one device are the minimal message, with excess precision off", () => {
    expect(hex(encodeCompileOptions())).toBe(`1a0420012801${excessPrecisionOff}`);
  });

  it("of four devices hold the assignment, SPMD and Shardy", () => {
    const [build] = fields(encodeCompileOptions({ numPartitions: 4, deviceIds: [3, 2, 1, 300] }));
    const options = fields(build![1] as Uint8Array);
    expect(options.map(([field]) => field)).toEqual([4, 5, 6, 9, 19]);
    const assignment = fields(options[3]![1] as Uint8Array);
    expect(assignment.slice(0, 2)).toEqual([
      [1, 1],
      [2, 4],
    ]);
    const ids = assignment.slice(2).map(([, device]) => fields(device as Uint8Array)[0]![1] as Uint8Array);
    expect(ids.map(hex)).toEqual(["03", "02", "01", "ac02"]);
  });

  it("leave Shardy out where it is not wanted", () => {
    const [build] = fields(encodeCompileOptions({ numPartitions: 2, useShardy: false }));
    expect(fields(build![1] as Uint8Array).map(([field]) => field)).toEqual([4, 5, 6]);
  });

  it("send every override with its type", () => {
    const all = overrides(
      encodeCompileOptions({
        envOverrides: { a: true, b: false, c: 7, d: -1, e: 0.5, f: { float: 2 }, g: "text", h: 5n },
      }),
    );
    expect(all.a).toEqual([2, 1]);
    expect(all.b).toEqual([2, 0]);
    expect(all.c).toEqual([3, 7]);
    expect(all.d![0]).toBe(3);
    expect(all.d![1]).toBe(2 ** 64);
    expect(all.h).toEqual([3, 5]);
    expect(new DataView((all.e![1] as Uint8Array).buffer).getFloat64(0, true)).toBe(0.5);
    expect([all.f![0], new DataView((all.f![1] as Uint8Array).buffer).getFloat64(0, true)]).toEqual([4, 2]);
    expect(Buffer.from(all.g![1] as Uint8Array).toString()).toBe("text");
    expect(all.xla_allow_excess_precision).toEqual([2, 0]);
  });

  it("refuse what can't be meant", () => {
    const code = { code: "E_COMPILE_OPTIONS" };
    for (const numPartitions of [0, -1, 1.5])
      expect(() => encodeCompileOptions({ numPartitions })).toThrow(/whole number/);
    expect(() => encodeCompileOptions({ numPartitions: 2, deviceIds: [0] })).toThrow(
      /2 partitions need as many device ids/,
    );
    expect(() => encodeCompileOptions({ envOverrides: { xla_allow_excess_precision: true } })).toThrow(
      expect.objectContaining(code),
    );
    expect(() => encodeCompileOptions({ envOverrides: { x: Number.NaN } })).toThrow(/finite/);
  });
});
