/** Weights stored for inference: against golden data of compressed-tensors, and on hostile values. */
import { describe, expect, it } from "vitest";
import { decodeArray, encodeArray, unpackNibbles } from "../../src/core/codecs.ts";
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { decodeWeight, encodeWeight, floatScalesOf, type WeightStorage } from "../../src/quant/storedWeights.ts";
import { golden } from "../golden.ts";
import { normals } from "./bothWays.ts";

const whole = Number.POSITIVE_INFINITY;
const storages = {
  NVFP4: { element: "e2m1", scale: "e4m3", group: 16 },
  NVFP4A16: { element: "e2m1", scale: "e4m3", group: 16 },
  MXFP4: { element: "e2m1", scale: "e8m0", group: 32 },
  MXFP8: { element: "e4m3", scale: "e8m0", group: 32 },
  FP8: { element: "e4m3", scale: "float", rows: whole, columns: whole },
  FP8_DYNAMIC: { element: "e4m3", scale: "float", rows: 1, columns: whole },
  FP8_BLOCK: { element: "e4m3", scale: "float", rows: 128, columns: 128 },
} as const satisfies Record<string, WeightStorage>;

const originals = await golden("15_compressed_tensors/original_bf16");

describe.each(Object.entries(storages))("%s", (preset, storage) => {
  it.each(originals.names)("of %s is golden's", async (name) => {
    const stored = await golden(`15_compressed_tensors/${preset}`);
    const w = originals.get(name);
    const floats = floatScalesOf(w, storage)!;
    const { codes, scales, error } = encodeWeight(w, storage, floats);
    const packed = storage.element === "e2m1";
    expect(codes).toEqual(stored.get(packed ? `${name}_packed` : name).data);
    if (storage.scale === "float") expect(floats).toEqual(stored.values(`${name}_scale`));
    else expect(scales).toEqual(stored.get(`${name}_scale`).data);
    if (storage.scale === "e4m3") expect(floats).toEqual(stored.values(`${name}_global_scale`));
    expect(error.elements).toBe(w.data.length);

    const decoded = (await golden(`15_compressed_tensors/${preset}.decompressed`)).get(name);
    const factors = factorsOf(storage, scales, floats);
    const block = storage.scale === "float" ? storage : { rows: 1, columns: storage.group };
    const back = decodeWeight({ element: storage.element, shape: w.shape as [number, number], codes, factors, block });
    expect(encodeArray("bfloat16", back)).toEqual(decoded.data);
    const exact = originals.values(name);
    const off = Math.max(...Array.from(back, (value, i) => Math.abs(value - exact[i]!)));
    expect(error.maxAbsError).toBe(off);
    expect(error.squares).toBeCloseTo(
      Array.from(exact, (value) => value * value).reduce((a, b) => a + b),
      6,
    );
  });
});

function factorsOf(storage: WeightStorage, scales: Uint8Array, floats: Float32Array): Float32Array {
  if (storage.scale === "float") return floats;
  if (storage.scale === "e8m0") return decodeArray("float8_e8m0fnu", scales) as Float32Array;
  return (decodeArray("float8_e4m3fn", scales) as Float32Array).map((s) => s / floats[0]!);
}

describe("on hostile values", () => {
  const normal = normals(5);
  const values: Record<string, (i: number) => number> = {
    "zero blocks beside large values": (i) => (Math.floor(i / 32) % 2 === 0 ? 0 : 1e4 * normal()),
    "nothing but zeros": () => 0,
    "the largest numbers": (i) => (i % 3 === 0 ? 3.38e38 : -1e30 * i),
    "float32 denormals": (i) => i * 1e-41,
    "one large value among denormals": (i) => (i === 7 ? 1e30 : 1e-40),
    "a scale that rounds to 0": (i) => (i < 32 ? 1e-9 : 1e3) * (1 + (i % 5)),
  };
  for (const [what, f] of Object.entries(values)) {
    it.each(Object.entries(storages))(`${what}: %s writes no scale that is NaN, and finite weights`, (_, storage) => {
      for (const dtype of ["bfloat16", "float32"] as const) {
        const data = encodeArray(
          dtype,
          Float32Array.from({ length: 4 * 128 }, (_, i) => f(i)),
        );
        const w = hostArray([4, 128], dtype, data);
        const floats = floatScalesOf(w, storage)!;
        const { codes, scales, error } = encodeWeight(w, storage, floats);
        if (storage.scale === "e4m3") expect(scales.some((byte) => (byte & 0x7f) === 0x7f)).toBe(false);
        expect(scales.includes(0xff)).toBe(false);
        expect(floats.every((scale) => Number.isFinite(scale) && scale > 0)).toBe(true);
        const block = storage.scale === "float" ? storage : { rows: 1, columns: storage.group };
        const factors = factorsOf(storage, scales, floats);
        const back = decodeWeight({ element: storage.element, shape: [4, 128], codes, factors, block });
        expect(decodeArray("bfloat16", encodeArray("bfloat16", back)).every(Number.isFinite)).toBe(true);
        // A block of zeros stays one.
        const exact = decodeArray(dtype, data);
        expect(back.every((value, i) => exact[i] !== 0 || value === 0)).toBe(true);
        expect(Number.isFinite(error.maxAbsError)).toBe(true);
      }
    });
  }

  it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])("%f is seen", (bad) => {
    for (const dtype of ["bfloat16", "float16", "float32"] as const) {
      const data = encodeArray(
        dtype,
        Float32Array.from({ length: 256 }, (_, i) => (i === 200 ? bad : i)),
      );
      const w: HostArray = hostArray([2, 128], dtype, data);
      for (const storage of Object.values(storages)) expect(floatScalesOf(w, storage)).toBeUndefined();
    }
  });

  it("counts what saturates and what becomes 0", () => {
    const w = hostArray(
      [1, 32],
      "float32",
      Float32Array.from({ length: 32 }, (_, i) => (i === 0 ? 7 : 0.001)),
    );
    const { codes, error } = encodeWeight(w, storages.MXFP4, new Float32Array(0));
    expect(unpackNibbles(codes)[0]).toBe(6);
    expect(error).toMatchObject({ elements: 32, underflows: 31, saturated: 0, blocks: 1, zeroBlocks: 0 });
    const beyond = hostArray([1, 32], "float32", new Float32Array(32).fill(6.9));
    expect(encodeWeight(beyond, storages.MXFP4, new Float32Array(0)).error.saturated).toBe(32);
  });
});
