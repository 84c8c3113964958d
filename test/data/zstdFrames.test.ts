/** Packed files are what was packed, or refused. */
import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fileBytes } from "../../src/data/fileBytes.ts";
import { xxHash64 } from "../../src/data/xxHash64.ts";
import { unzstdWhole } from "../../src/data/zstdFrames.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

const hex = (bytes: Uint8Array, pieces: readonly number[] = []) => {
  const hash = xxHash64();
  let at = 0;
  for (const length of pieces) {
    hash.update(bytes.subarray(at, at + length));
    at += length;
  }
  hash.update(bytes.subarray(Math.min(at, bytes.length)));
  const { high, low } = hash.digest();
  return [high, low].map((word) => word.toString(16).padStart(8, "0")).join("");
};

/** The same with 64-bit integers, as the specification writes it. */
function reference(bytes: Uint8Array): string {
  const [p1, p2, p3, p4, p5] = [
    0x9e3779b185ebca87n,
    0xc2b2ae3d27d4eb4fn,
    0x165667b19e3779f9n,
    0x85ebca77c2b2ae63n,
    0x27d4eb2f165667c5n,
  ] as const;
  const wrap = (x: bigint) => BigInt.asUintN(64, x);
  const turn = (x: bigint, bits: bigint) => wrap((x << bits) | (x >> (64n - bits)));
  const round = (lane: bigint, word: bigint) => wrap(turn(wrap(lane + wrap(word * p2)), 31n) * p1);
  const view = Buffer.from(bytes);
  let at = 0;
  let hash: bigint = p5;
  if (view.length >= 32) {
    const lanes: bigint[] = [wrap(p1 + p2), p2, 0n, wrap(-p1)];
    for (; at + 32 <= view.length; at += 32) {
      for (let i = 0; i < 4; i++) lanes[i] = round(lanes[i]!, view.readBigUInt64LE(at + 8 * i));
    }
    hash = [1n, 7n, 12n, 18n].reduce((sum, bits, i) => wrap(sum + turn(lanes[i]!, bits)), 0n);
    for (const lane of lanes) hash = wrap((hash ^ round(0n, lane)) * p1 + p4);
  }
  hash = wrap(hash + BigInt(view.length));
  for (; at + 8 <= view.length; at += 8) hash = wrap(turn(hash ^ round(0n, view.readBigUInt64LE(at)), 27n) * p1 + p4);
  if (at + 4 <= view.length) {
    hash = wrap(turn(hash ^ wrap(BigInt(view.readUInt32LE(at)) * p1), 23n) * p2 + p3);
    at += 4;
  }
  for (; at < view.length; at++) hash = wrap(turn(hash ^ wrap(BigInt(view[at]!) * p5), 11n) * p1);
  hash = wrap((hash ^ (hash >> 33n)) * p2);
  hash = wrap((hash ^ (hash >> 29n)) * p3);
  return (hash ^ (hash >> 32n)).toString(16).padStart(16, "0");
}

describe("XXH64", () => {
  it("has the values that are known of it", () => {
    expect(hex(Buffer.from(""))).toBe("ef46db3751d8e999");
    expect(hex(Buffer.from("a"))).toBe("d24ec4f1a98c6e5b");
    expect(hex(Buffer.from("abc"))).toBe("44bc2cf5ad770999");
  });

  it("is that of 64-bit integers for any bytes, in any pieces", () => {
    const cases = fc.tuple(fc.uint8Array({ maxLength: 200 }), fc.array(fc.nat(70), { maxLength: 5 }));
    fc.assert(
      fc.property(cases, ([bytes, pieces]) => {
        expect(hex(bytes, pieces)).toBe(reference(bytes));
      }),
    );
  });
});

async function unpack(bytes: Uint8Array): Promise<{ bytes: Buffer; largest: number }> {
  const path = join(temporaryFolder(), "a.txt.zst");
  writeFileSync(path, bytes);
  const chunks: Uint8Array[] = [];
  for await (const chunk of fileBytes(path)) chunks.push(chunk);
  return { bytes: Buffer.concat(chunks), largest: Math.max(0, ...chunks.map(({ length }) => length)) };
}

const magic = [0x28, 0xb5, 0x2f, 0xfd];
/** A frame of raw blocks without a checksum. */
const rawFrame = (text: string) =>
  Buffer.concat([Buffer.of(...magic, 0x20, text.length, 1 | (text.length << 3), 0, 0), Buffer.from(text)]);
/** 12 bytes that are passed over. */
const skippable = Buffer.of(0x53, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4);

describe(".zst", () => {
  it("reads frames without a checksum, and passes over those that hold nothing to read", async () => {
    const packed = Buffer.concat([skippable, rawFrame("one, "), skippable, rawFrame("two"), skippable]);
    expect(`${(await unpack(packed)).bytes}`).toBe("one, two");
  });

  it("holds every frame to the largest window, also behind frames that are passed over", async () => {
    const wide = Buffer.of(...magic, 0x00, 0xa0, ...Array(20).fill(0));
    const single = Buffer.of(...magic, 0xa0, 0, 0, 0, 0x70, ...Array(20).fill(0));
    for (const frame of [wide, single]) {
      for (const before of [skippable, rawFrame("a")]) {
        await expect(unpack(Buffer.concat([before, frame]))).rejects.toThrow("window is larger than 128 MiB");
      }
    }
  });

  it("refuses a frame of another size than it says, of a dictionary, and what is no frame", async () => {
    const [longer, strange] = [rawFrame("some text"), rawFrame("some text")];
    longer[5]! += 1;
    await expect(unpack(longer)).rejects.toThrow("a frame of 10 bytes unpacks to 9");
    const dictionary = Buffer.concat([Buffer.of(...magic, 0x21, 7), strange.subarray(5)]);
    await expect(unpack(dictionary)).rejects.toThrow("needs a dictionary");
    await expect(unpack(Buffer.concat([strange, Buffer.from("more")]))).rejects.toThrow("no frame");
    await expect(unpack(strange.subarray(0, 12))).rejects.toThrow("cut off");
  });

  it("of a known size asks for no more than that, whatever a frame says of itself", () => {
    const text = rawFrame("some text");
    expect(`${Buffer.from(unzstdWhole(text, 9))}`).toBe("some text");
    expect(`${Buffer.from(unzstdWhole(Buffer.concat([text, text]), 18))}`).toBe("some textsome text");
    expect(() => unzstdWhole(text, 8)).toThrow("a frame of 9 bytes where 8 are left");
    expect(() => unzstdWhole(text, 10)).toThrow("10 bytes are to come of what unpacks to 9");
    expect(() => unzstdWhole(Buffer.concat([text, text]), 17)).toThrow("a frame of 9 bytes where 8 are left");
    expect(() => unzstdWhole(text.subarray(0, 12), 9)).toThrow("cut off");
    // A content of 2^38 bytes, and a window of 2 GiB: neither is made room for.
    const content = Buffer.of(...magic, 0xe0, 0, 0, 0, 0, 64, 0, 0, 0, 1, 0, 0);
    const window = Buffer.of(...magic, 0x00, 21 << 3, 1, 0, 0);
    for (const claim of [content, window])
      expect(() => unzstdWhole(claim, 100)).toThrow("its window is larger than 8 MiB");
    // A thousand blocks of a byte repeated 2^17 times, in 4 KB.
    const block = (last: number) => [
      last | (1 << 1) | (((1 << 17) << 3) & 255),
      ((1 << 20) >> 8) & 255,
      (1 << 20) >> 16,
      65,
    ];
    const bomb = Buffer.of(...magic, 0x00, 0x40, ...Array.from({ length: 999 }, () => block(0)).flat(), ...block(1));
    expect(unzstdWhole(bomb, 1000 << 17)).toHaveLength(1000 << 17);
    expect(() => unzstdWhole(bomb, 1 << 18)).toThrow("262144 bytes are to come of what unpacks to more");
  });

  const zstd = (text: string, ...args: string[]) => execFileSync("zstd", ["-q", "-c", ...args], { input: text });
  describe.runIf(existsSync("/usr/bin/zstd"))("of the zstd program", () => {
    const text = Array.from({ length: 3000 }, (_, i) => `line ${(i * 7919) % 1000} of a file\n`).join("");

    it.each([["-1"], ["-3"], ["-19"], ["--no-check"]])("reads what %s writes", async (level) => {
      for (const content of ["", "short", text, text.repeat(8)]) {
        expect(`${(await unpack(zstd(content, level))).bytes}`).toBe(content);
        expect(`${Buffer.from(unzstdWhole(zstd(content, level), content.length))}`).toBe(content);
      }
    });

    it("gives a block at a time of a file that unpacks to a thousand times its size", async () => {
      const { bytes, largest } = await unpack(zstd("a".repeat(1 << 24)));
      expect(bytes.length).toBe(1 << 24);
      expect(largest).toBeLessThanOrEqual(1 << 17);
    });

    it("refuses a file of which any bit was flipped", async () => {
      const packed = zstd(text);
      let read = 0;
      for (let i = 0; i < 200; i++) {
        const damaged = Buffer.from(packed);
        const place = (i * 104_729) % packed.length;
        damaged[place]! ^= 1 << (i % 8);
        const outcome = await unpack(damaged).catch((error: Error) => error);
        if (outcome instanceof Error) expect(outcome.message).toMatch(/a\.txt\.zst: is damaged, or no zstd file/);
        // A bit that nothing reads, as of the window's size.
        else {
          expect(`${outcome.bytes}`).toBe(text);
          read++;
        }
      }
      expect(read).toBeLessThan(10);
    });
  });
});
