/**
 * The quantizers of published FP4 recipes once more, in plain numbers and loops: values come from lists of the formats'
 * codes, nothing from the quantizers under test. Arithmetic is float32, each operation rounded by itself.
 */
import { constant, hostArray, type Tensor } from "../../src/core/index.ts";
import { deriveKey, drawBits, hashName, streamOfKey } from "../../src/core/randomBits.ts";

const f = Math.fround;
const maxFloat32 = 3.4028234663852886e38;

export function identityMatrix(size: number): Tensor {
  const ones = Float32Array.from({ length: size * size }, (_, i) => (i % (size + 1) === 0 ? 1 : 0));
  return constant(hostArray([size, size], "float32", ones));
}

export const gridE2m1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
/** By its codes 0 to 126: the three low bits are the mantissa. */
const gridE4m3 = Array.from({ length: 127 }, (_, code) => {
  const [exponent, mantissa] = [code >> 3, code & 7];
  return exponent === 0 ? mantissa * 2 ** -9 : (1 + mantissa / 8) * 2 ** (exponent - 7);
});

/** The code of the nearest value, ties to the even code, saturating. */
function nearestCode(magnitude: number, grid: readonly number[]): number {
  let best = 0;
  for (let code = 1; code < grid.length; code++) {
    const [now, before] = [Math.abs(grid[code]! - magnitude), Math.abs(grid[best]! - magnitude)];
    if (now < before || (now === before && code % 2 === 0)) best = code;
  }
  return best;
}

const nearest = (x: number, grid: readonly number[]): number => Math.sign(x) * grid[nearestCode(Math.abs(x), grid)]!;

/** Up with the probability of the distance, to 2^-16: up where the floor of frac · 2^16 and the draw reach 2^16. */
function stochastic(x: number, grid: readonly number[], draw: number): number {
  const magnitude = Math.min(Math.abs(x), grid.at(-1)!);
  let low = grid.length - 1;
  while (grid[low]! > magnitude) low--;
  if (low === grid.length - 1) return Math.sign(x) * grid[low]!;
  const share = (magnitude - grid[low]!) / (grid[low + 1]! - grid[low]!);
  const up = Math.floor(share * 2 ** 16) + draw >= 2 ** 16;
  return Math.sign(x) * grid[up ? low + 1 : low]!;
}

export interface PlainDraws {
  readonly seed: number;
  readonly step: number;
  readonly microBatch: number;
  readonly module: string;
  readonly layer: number;
  /** fprop 0, dgrad 1, wgrad 2; left 0, right 1. */
  readonly gemm: number;
  readonly operand: number;
}

/** Draw number i of a place: 16 bits. */
export function plainDraws({ seed, step, microBatch, module, layer, gemm, operand }: PlainDraws) {
  const [key0, key1] = deriveKey([seed, step, microBatch]);
  const place = ((layer << 8) | (gemm << 4) | operand) >>> 0;
  const stream = streamOfKey([(key0 ^ hashName(module)) >>> 0, (key1 ^ place) >>> 0]);
  return (i: number) => drawBits(stream, i) >>> 16;
}

/** Rows of numbers, each whole blocks long. */
export type Rows = readonly (readonly number[])[];

export interface PlainResult {
  /** The elements, row by row. */
  readonly elements: number[];
  /** The stored scales, row by row. */
  readonly scales: number[];
}

const amaxOf = (values: readonly number[]): number => values.reduce((max, v) => Math.max(max, Math.abs(v)), 0);
const chunks = <T>(values: readonly T[], size: number): T[][] =>
  Array.from({ length: values.length / size }, (_, i) => values.slice(i * size, (i + 1) * size));

const fromLeft = (values: readonly number[]): number => values.reduce((sum, v) => f(sum + v));

interface E4m3Options {
  readonly gain: number;
  readonly bound: number;
  readonly amax: number;
}

/** The block's scale before E4M3 rounds it, and the factor of its elements for a stored scale. */
function e4m3Rule({ gain, bound, amax }: E4m3Options) {
  const range = f((6 * bound) / gain);
  const S = amax === 0 ? 1 : Math.min(f(range / amax), maxFloat32);
  return {
    target: (values: readonly number[]) => Math.min(f(amaxOf(values) * f(S * f(gain / 6))), 448),
    encode: (stored: number) => Math.min(f(1 / f(stored * f(1 / S))), maxFloat32),
  };
}

/** MS-EDEN of rows whose groups are rotated already. `draw` by the block's number. */
export function plainEden(
  rows: Rows,
  options: { readonly group: number; readonly gain: number; readonly bound: number },
  draw: (block: number) => number,
): PlainResult {
  const { group, gain, bound } = options;
  const rule = e4m3Rule({ gain, bound, amax: amaxOf(rows.flat()) });
  const [elements, scales]: [number[], number[]] = [[], []];
  for (const row of rows) {
    for (const values of chunks(row, group)) {
      const blocks = chunks(values, 16).map((block) => {
        const stored = nearest(rule.target(block), gridE4m3) || 1;
        const scaled = block.map((v) => f(v * rule.encode(stored)));
        const rounded = scaled.map((v) => nearest(v, gridE2m1));
        const squares = fromLeft(scaled.map((v) => f(v * v)));
        const projection = fromLeft(scaled.map((v, i) => f(v * rounded[i]!)));
        return { stored, rounded, squares, projection };
      });
      const divisor = fromLeft(blocks.map((block) => block.projection));
      const C = divisor > 0 ? f(fromLeft(blocks.map((block) => block.squares)) / divisor) : 1;
      for (const { stored, rounded } of blocks) {
        elements.push(...rounded);
        scales.push(stochastic(Math.min(f(stored * C), 448), gridE4m3, draw(scales.length)));
      }
    }
  }
  return { elements, scales };
}

/** Powers of two from the standard deviation of each block of 32. */
export function plainSpread(rows: Rows, sigmas: number): PlainResult {
  const [elements, scales]: [number[], number[]] = [[], []];
  for (const block of rows.flatMap((row) => chunks(row, 32))) {
    const mean = f(fromLeft(block) / 32);
    const off = block.map((v) => f(v - mean));
    const sigma = f(Math.sqrt(f(fromLeft(off.map((v) => f(v * v))) / 32)));
    const scale = 2 ** Math.floor(Math.log2(f(f(sigma * f(sigmas / 6)) + f(1e-8))));
    scales.push(scale);
    elements.push(...block.map((v) => nearest(f(v / scale), gridE2m1)));
  }
  return { elements, scales };
}

/** NVFP4 whose float32 scales cover 128 elements of a row each; stochastic where `draw` is given, by element. */
export function plainInGroups(rows: Rows, draw?: (element: number) => number): PlainResult {
  const [elements, scales]: [number[], number[]] = [[], []];
  for (const row of rows) {
    for (let start = 0; start < row.length; start += 128) {
      const group = row.slice(start, start + 128);
      const rule = e4m3Rule({ gain: 1, bound: 448, amax: amaxOf(group) });
      for (const block of chunks(group, 16)) {
        const rounded = nearest(rule.target(block), gridE4m3);
        const stored = draw ? rounded || 2 ** -9 : rounded;
        const scaled = block.map((v) => f(v * rule.encode(stored)));
        scales.push(stored);
        for (const v of scaled) {
          elements.push(draw ? stochastic(v, gridE2m1, draw(elements.length)) : nearest(v, gridE2m1));
        }
      }
    }
  }
  return { elements, scales };
}

/** MXFP4 by OCP's scales in blocks of 32 whose elements are divided by `gain` and rounded stochastically. */
export function plainOcp(rows: Rows, gain: number, draw: (element: number) => number): PlainResult {
  const [elements, scales]: [number[], number[]] = [[], []];
  for (const block of rows.flatMap((row) => chunks(row, 32))) {
    const scale = 2 ** (Math.floor(Math.log2(amaxOf(block))) - 2);
    scales.push(scale);
    for (const v of block) {
      elements.push(stochastic(f(v * f(f(1 / gain) / scale)), gridE2m1, draw(elements.length)));
    }
  }
  return { elements, scales };
}

/** The derivative that DGE takes for E2M1's rounding, in float64: k and cap as the paper has them. */
export function plainDge(x: number, k: number, cap: number): number {
  const magnitude = Math.abs(x);
  if (magnitude > 6) return 0;
  const above = gridE2m1.findIndex((value) => value > magnitude);
  const high = gridE2m1[above === -1 ? gridE2m1.length - 1 : above]!;
  const low = gridE2m1[(above === -1 ? gridE2m1.length - 1 : above) - 1]!;
  const centred = Math.abs((2 * (magnitude - low)) / (high - low) - 1);
  return centred === 0 ? cap : Math.min(centred ** (1 / k - 1) / k, cap);
}
