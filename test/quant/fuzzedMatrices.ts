/** Matrices for tests of quantizers, cell by cell of 16 neighbours: bit patterns at random, and the edges of float32. */
import fc from "fast-check";
import type { HostArray } from "../../src/core/index.ts";
import { fromNumbers, normals } from "./bothWays.ts";

/** What a cell holds. */
const kinds = ["zeros", "normal", "bits", "equal", "outlier", "around", "denormals", "powers"] as const;
type Kind = (typeof kinds)[number];

export interface MatrixSpec {
  readonly shape: readonly [number, number];
  readonly dtype: "bfloat16" | "float32";
  readonly seed: number;
  readonly kinds: readonly Kind[];
  /** Cells have exponents up to this far from the tensor's own. */
  readonly spread: number;
  readonly exponent: number;
}

export interface MatrixLimits {
  readonly shapes: readonly (readonly [number, number])[];
  readonly dtypes?: readonly MatrixSpec["dtype"][];
  /** Largest distance of the tensor's exponent from 0; cells add theirs. */
  readonly exponents?: number;
  readonly spread?: number;
  readonly without?: readonly Kind[];
}

export function matrixSpecs(limits: MatrixLimits): fc.Arbitrary<MatrixSpec> {
  const { shapes, dtypes = ["bfloat16", "float32"], exponents = 60, spread = 30, without = [] } = limits;
  return fc.record({
    shape: fc.constantFrom(...shapes),
    dtype: fc.constantFrom(...dtypes),
    seed: fc.integer({ min: 0, max: 2 ** 31 }),
    kinds: fc.subarray(
      kinds.filter((kind) => !without.includes(kind)),
      { minLength: 1 },
    ),
    spread: fc.constantFrom(0, 2, spread),
    exponent: fc.constantFrom(0, 0, -exponents, exponents),
  });
}

export function matrixOf({ shape, dtype, seed, kinds, spread, exponent }: MatrixSpec): HostArray {
  const next = normals(seed);
  const pick = (n: number) => Math.floor(Math.abs(next()) * 1e6) % n;
  const cell = (): ((j: number) => number) => {
    const kind = kinds[pick(kinds.length)]!;
    const scale = 2 ** (exponent + (spread === 0 ? 0 : pick(2 * spread + 1) - spread));
    const at = pick(16);
    switch (kind) {
      case "zeros":
        return (j) => (j % 2 === 0 ? 0 : -0);
      case "normal":
        return () => next() * scale;
      case "bits":
        return () => (pick(2) === 0 ? -1 : 1) * (1 + pick(2 ** 20) / 2 ** 20) * scale * 2 ** -pick(12);
      case "equal":
        return () => (pick(2) === 0 ? -1.37 : 1.37) * scale;
      case "outlier":
        return (j) => (j === at ? 1 : next() * 1e-3) * scale;
      case "around":
        // Ties of E2M1, and their neighbours in bfloat16.
        return () => [6, 5, 3.5, 2.5, 1.75, 1.25, 0.75, 0.25][pick(8)]! * (1 + (pick(3) - 1) / 128) * scale;
      case "denormals":
        return (j) => (j === at ? scale : next() * 2 ** -130);
      case "powers":
        return () => 2 ** -pick(8) * scale;
    }
  };
  const [rows, columns] = shape;
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let start = 0; start < columns; start += 16) {
      const value = cell();
      for (let j = 0; j < Math.min(16, columns - start); j++) values[row * columns + start + j] = value(j);
    }
  }
  return fromNumbers(shape, dtype, values);
}
