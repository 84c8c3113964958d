/**
 * Element types of GGUF tensors: how many values a block has, in how many bytes, and what they are.
 *
 *     Q8_0   32 values:  d f16, q i8[32]                         d · q
 *     Q4_0   32 values:  d f16, q u4[32]                         d · (q − 8)
 *     Q4_1   32 values:  d f16, m f16, q u4[32]                  d · q + m
 *     Q5_0   32 values:  d f16, q u1[32], u4[32]                 d · (q − 16)
 *     Q5_1   32 values:  d f16, m f16, q u1[32], u4[32]          d · q + m
 *     Q2_K  256 values:  16 × (s, m) u4, q u2[256], d f16, e f16 d · s · q − e · m   for 16 values each
 *     Q3_K  256 values:  q u1[256], u2[256], s u6[16], d f16     d · (s − 32) · (q − 4)   for 16 values each
 *     Q4_K  256 values:  d f16, e f16, 8 × (s, m) u6, q u4[256]  d · s · q − e · m   for 32 values each
 *     Q5_K  256 values:  as Q4_K, with q u1[256] before u4[256]
 *     Q6_K  256 values:  q u4[256], u2[256], s i8[16], d f16     d · s · (q − 32)    for 16 values each
 *
 * Of 32 four-bit values the first 16 are the low halves of 16 bytes and the others the high halves. Sums and products are
 * exact in float64 (11 bits of a float16 times at most 14), so each value is rounded to float32 once, as in float32 arithmetic.
 */
import { decode } from "../core/codecs.ts";
import type { DType } from "../core/index.ts";

/** How the values of a tensor are stored. */
export interface GgufTensorType {
  readonly name: string;
  /** Values of a block: dim 0 of the file, the last of the shape, is a multiple of it. */
  readonly blockValues: number;
  readonly blockBytes: number;
  /** What `readGguf` gives: plain floats as they are, blocks as float32. */
  readonly dtype: DType;
  /** Decodes the block at byte `from` of `bytes` into `to`, from index `at` on. Absent for plain floats. */
  readonly decodeBlock?: (bytes: Uint8Array, from: number, to: Float32Array, at: number) => void;
}

const f16 = (bytes: Uint8Array, at: number): number => decode("float16", bytes[at]! | (bytes[at + 1]! << 8));
const i8 = (byte: number): number => (byte << 24) >> 24;

function decodeQ80(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const d = f16(bytes, from);
  for (let i = 0; i < 32; i++) to[at + i] = d * i8(bytes[from + 2 + i]!);
}

function decodeQ40(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const d = f16(bytes, from);
  for (let i = 0; i < 16; i++) {
    const byte = bytes[from + 2 + i]!;
    to[at + i] = d * ((byte & 15) - 8);
    to[at + 16 + i] = d * ((byte >> 4) - 8);
  }
}

function decodeQ41(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const [d, m] = [f16(bytes, from), f16(bytes, from + 2)];
  for (let i = 0; i < 16; i++) {
    const byte = bytes[from + 4 + i]!;
    to[at + i] = d * (byte & 15) + m;
    to[at + 16 + i] = d * (byte >> 4) + m;
  }
}

/** Code i of 32 of five bits: the low four as above from byte `low`, the fifth bit i of the 4 bytes from `high`. */
const fiveBits = (bytes: Uint8Array, high: number, low: number, i: number): number =>
  ((bytes[low + (i & 15)]! >> ((i >> 4) * 4)) & 15) | (((bytes[high + (i >> 3)]! >> (i & 7)) & 1) << 4);

function decodeQ50(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const d = f16(bytes, from);
  for (let i = 0; i < 32; i++) to[at + i] = d * (fiveBits(bytes, from + 2, from + 6, i) - 16);
}

function decodeQ51(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const [d, m] = [f16(bytes, from), f16(bytes, from + 2)];
  for (let i = 0; i < 32; i++) to[at + i] = d * fiveBits(bytes, from + 4, from + 8, i) + m;
}

/** The six-bit scale and minimum of group 0 … 7 from the 12 bytes at `s`: four of each whole, four in the spare bits. */
function scaleAndMinimum(bytes: Uint8Array, s: number, group: number): readonly [number, number] {
  if (group < 4) return [bytes[s + group]! & 63, bytes[s + group + 4]! & 63];
  const [low, scaleHigh, minimumHigh] = [bytes[s + group + 4]!, bytes[s + group - 4]!, bytes[s + group]!];
  return [(low & 15) | ((scaleHigh >> 6) << 4), (low >> 4) | ((minimumHigh >> 6) << 4)];
}

/** Q4_K, and Q5_K whose codes have a fifth bit: bit g of byte i is that of value i of group g. */
function decodeQ45K(fifthBit: boolean): NonNullable<GgufTensorType["decodeBlock"]> {
  return (bytes, from, to, at) => {
    const [d, e] = [f16(bytes, from), f16(bytes, from + 2)];
    const high = from + 16;
    const low = fifthBit ? high + 32 : high;
    for (let group = 0; group < 8; group++) {
      const [scale, minimum] = scaleAndMinimum(bytes, from + 4, group);
      const [factor, offset, shift] = [d * scale, e * minimum, (group & 1) * 4];
      const codes = low + (group >> 1) * 32;
      for (let i = 0; i < 32; i++) {
        const fifth = fifthBit ? ((bytes[high + i]! >> group) & 1) << 4 : 0;
        to[at + group * 32 + i] = factor * (((bytes[codes + i]! >> shift) & 15) | fifth) - offset;
      }
    }
  };
}

/** Value i of group 0 … 15, of 16 values, where 128 values share 32 bytes of two-bit codes: the byte and the shift. */
const twoBits = (group: number, i: number): readonly [number, number] => [
  (group >> 3) * 32 + (group & 1) * 16 + i,
  ((group >> 1) & 3) * 2,
];

function decodeQ2K(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const [d, e] = [f16(bytes, from + 80), f16(bytes, from + 82)];
  for (let group = 0; group < 16; group++) {
    const [factor, offset] = [d * (bytes[from + group]! & 15), e * (bytes[from + group]! >> 4)];
    for (let i = 0; i < 16; i++) {
      const [byte, shift] = twoBits(group, i);
      to[at + group * 16 + i] = factor * ((bytes[from + 16 + byte]! >> shift) & 3) - offset;
    }
  }
}

function decodeQ3K(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const d = f16(bytes, from + 108);
  const scales = from + 96;
  for (let group = 0; group < 16; group++) {
    // Low four bits in 8 bytes, of groups 8 and on their high halves; two more in 4 bytes.
    const low = (bytes[scales + (group & 7)]! >> ((group >> 3) * 4)) & 15;
    const high = (bytes[scales + 8 + (group & 3)]! >> ((group >> 2) * 2)) & 3;
    const factor = d * ((low | (high << 4)) - 32);
    for (let i = 0; i < 16; i++) {
      const [byte, shift] = twoBits(group, i);
      const third = (bytes[from + (group & 1) * 16 + i]! >> (group >> 1)) & 1;
      to[at + group * 16 + i] = factor * ((((bytes[from + 32 + byte]! >> shift) & 3) | (third << 2)) - 4);
    }
  }
}

function decodeQ6K(bytes: Uint8Array, from: number, to: Float32Array, at: number): void {
  const d = f16(bytes, from + 208);
  for (let quarter = 0; quarter < 8; quarter++) {
    // 128 values share 64 bytes of low and 32 of high bits; a quarter of them is a pair of scales.
    const [half, part] = [quarter >> 2, quarter & 3];
    const [low, high] = [from + half * 64 + (part & 1) * 32, from + 128 + half * 32];
    for (let i = 0; i < 32; i++) {
      const q = ((bytes[low + i]! >> ((part >> 1) * 4)) & 15) | (((bytes[high + i]! >> (part * 2)) & 3) << 4);
      const scale = i8(bytes[from + 192 + quarter * 2 + (i >> 4)]!);
      to[at + quarter * 32 + i] = d * scale * (q - 32);
    }
  }
}

const blocks = (
  name: string,
  blockValues: number,
  blockBytes: number,
  decodeBlock: NonNullable<GgufTensorType["decodeBlock"]>,
): GgufTensorType => ({ name, blockValues, blockBytes, dtype: "float32", decodeBlock });

const floats = (name: string, blockBytes: number, dtype: DType): GgufTensorType => ({
  name,
  blockValues: 1,
  blockBytes,
  dtype,
});

/** The types that are read, by their number in the file. */
export const tensorTypes: Readonly<Record<number, GgufTensorType>> = {
  0: floats("F32", 4, "float32"),
  1: floats("F16", 2, "float16"),
  2: blocks("Q4_0", 32, 18, decodeQ40),
  3: blocks("Q4_1", 32, 20, decodeQ41),
  6: blocks("Q5_0", 32, 22, decodeQ50),
  7: blocks("Q5_1", 32, 24, decodeQ51),
  8: blocks("Q8_0", 32, 34, decodeQ80),
  10: blocks("Q2_K", 256, 84, decodeQ2K),
  11: blocks("Q3_K", 256, 110, decodeQ3K),
  12: blocks("Q4_K", 256, 144, decodeQ45K(false)),
  13: blocks("Q5_K", 256, 176, decodeQ45K(true)),
  14: blocks("Q6_K", 256, 210, decodeQ6K),
  30: floats("BF16", 2, "bfloat16"),
};

/** Names of types that are not read, for the message that says so. */
export const otherTypes: Readonly<Record<number, string>> = {
  9: "Q8_1",
  15: "Q8_K",
  16: "IQ2_XXS",
  17: "IQ2_XS",
  18: "IQ3_XXS",
  19: "IQ1_S",
  20: "IQ4_NL",
  21: "IQ3_S",
  22: "IQ2_S",
  23: "IQ4_XS",
  24: "I8",
  25: "I16",
  26: "I32",
  27: "I64",
  28: "F64",
  29: "IQ1_M",
  34: "TQ1_0",
  35: "TQ2_0",
  39: "MXFP4",
};
