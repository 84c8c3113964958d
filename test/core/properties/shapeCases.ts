/** Cases of the operations that move, select and make elements. All are exact and take every dtype. */
import fc from "fast-check";
import {
  checkpointName,
  concat,
  constant,
  type DType,
  full,
  type HostArray,
  iota,
  optimizationBarrier,
  pad,
  repeat,
  roll,
  type Shape,
  split,
  stack,
  stopGradient,
  type Tensor,
  tile,
  where,
} from "../../../src/core/index.ts";
import { representable } from "../../../src/core/values.ts";
import { bits, exact } from "./compare.ts";
import { drawnCasesOf, type OpCase } from "./opCase.ts";
import { arrays, ordinaryArrays, shapes } from "./values.ts";

type Unlabelled = Pick<OpCase, "f" | "inputs">;

/** One input of the given shapes and what to do with it, which may depend on the shape. */
function onShape<P>(
  shape: fc.Arbitrary<Shape>,
  params: (shape: Shape) => fc.Arbitrary<P>,
  f: (x: Tensor, params: P) => Tensor,
): (dtype: DType) => fc.Arbitrary<Unlabelled> {
  return (dtype) =>
    shape.chain((s) =>
      fc.record({ x: arrays(dtype, s), p: params(s) }).map(({ x, p }) => ({ inputs: [x], f: (t: Tensor) => f(t, p) })),
    );
}

const perDim = <T>(shape: Shape, f: (size: number) => fc.Arbitrary<T>): fc.Arbitrary<T[]> =>
  fc.tuple(...shape.map(f)) as fc.Arbitrary<T[]>;

const permutations = (rank: number) =>
  fc.shuffledSubarray(
    Array.from({ length: rank }, (_, i) => i),
    { minLength: rank },
  );

interface Window {
  readonly start: number;
  readonly limit: number;
  readonly stride: number;
}

const windows = (size: number): fc.Arbitrary<Window> =>
  fc
    .record({ ends: fc.tuple(fc.nat(size), fc.nat(size)), stride: fc.integer({ min: 1, max: 3 }) })
    .map(({ ends, stride }) => ({ start: Math.min(...ends), limit: Math.max(...ends), stride }));

const paddings = fc.record({ low: fc.nat(2), high: fc.nat(2), interior: fc.nat(2) });

/** The same elements under another shape of the same size: dims merged, split off and ones put in. */
const regroupings = (shape: Shape): fc.Arbitrary<Shape> =>
  fc.record({ merge: fc.boolean(), ones: fc.array(fc.nat(shape.length), { maxLength: 2 }) }).map(({ merge, ones }) => {
    const dims = merge && shape.length >= 2 ? [shape[0]! * shape[1]!, ...shape.slice(2)] : [...shape];
    for (const at of ones) dims.splice(at, 0, 1);
    return dims;
  });

const concatenations = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  fc
    .record({ shape: shapes({ minRank: 1 }), sizes: fc.array(fc.nat(3), { minLength: 2, maxLength: 3 }) })
    .chain(({ shape, sizes }) =>
      fc.nat(shape.length - 1).chain((dim) =>
        fc.tuple(...sizes.map((size) => arrays(dtype, shape.with(dim, size)))).map((inputs) => ({
          inputs: inputs as HostArray[],
          f: (...parts: Tensor[]) => concat(parts, dim),
        })),
      ),
    );

const stacks = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  shapes({ maxRank: 3 }).chain((shape) =>
    fc
      .record({ inputs: fc.tuple(arrays(dtype, shape), arrays(dtype, shape)), dim: fc.nat(shape.length) })
      .map(({ inputs, dim }) => ({ inputs, f: (...parts: Tensor[]) => stack(parts, dim) })),
  );

const selections = (dtype: DType): fc.Arbitrary<Unlabelled> =>
  shapes().chain((shape) =>
    fc
      .tuple(ordinaryArrays("bool", shape), arrays(dtype, shape), arrays(dtype, shape))
      .map((inputs) => ({ inputs, f: (...[c, a, b]: Tensor[]) => where(c!, a!, b!) })),
  );

/** Programs without inputs. */
const made =
  <P>(params: fc.Arbitrary<P>, f: (dtype: DType, params: P) => Tensor) =>
  (dtype: DType) =>
    params.map((p) => ({ inputs: [], f: () => f(dtype, p) }));

const fillValues = [0, 1, 2, 0.5, -3, 1e4, 255, 2 ** 31, -0, Infinity, NaN, 1e-40, 0.1];

const families: Record<string, (dtype: DType) => fc.Arbitrary<Unlabelled>> = {
  reshape: onShape(shapes(), regroupings, (x, shape) => x.reshape(shape)),
  transpose: onShape(
    shapes(),
    (s) => permutations(s.length),
    (x, order) => x.transpose(order),
  ),
  broadcastTo: onShape(
    shapes({ maxRank: 3 }),
    (s) => fc.record({ lead: shapes({ maxRank: 1 }), sizes: perDim(s, () => fc.nat(4)) }),
    (x, { lead, sizes }) => x.broadcastTo([...lead, ...x.shape.map((n, i) => (n === 1 ? sizes[i]! : n))]),
  ),
  slice: onShape(
    shapes(),
    (s) => perDim(s, windows),
    (x, list) =>
      x.slice(
        list.map((w) => w.start),
        list.map((w) => w.limit),
        list.map((w) => w.stride),
      ),
  ),
  reverse: onShape(
    shapes(),
    (s) => fc.subarray(s.map((_, i) => i)),
    (x, dims) => x.reverse(dims),
  ),
  pad: onShape(
    shapes(),
    (s) => fc.record({ list: perDim(s, () => paddings), value: fc.nat(1) }),
    (x, { list, value }) =>
      pad(x, {
        low: list.map((p) => p.low),
        high: list.map((p) => p.high),
        interior: list.map((p) => p.interior),
        value,
      }),
  ),
  split: onShape(
    shapes({ minRank: 1 }),
    (s) => fc.nat(s.length - 1).chain((dim) => fc.record({ dim: fc.constant(dim), cut: fc.nat(s[dim]!) })),
    (x, { dim, cut }) => concat(split(x, [cut, x.shape[dim]! - cut], dim).reverse(), dim),
  ),
  tile: onShape(
    shapes({ maxRank: 3 }),
    (s) => perDim(s, () => fc.nat(3)),
    (x, counts) => tile(x, counts),
  ),
  repeat: onShape(
    shapes({ minRank: 1, maxRank: 3 }),
    (s) => fc.record({ dim: fc.nat(s.length - 1), count: fc.nat(3) }),
    (x, { dim, count }) => repeat(x, count, dim),
  ),
  roll: onShape(
    shapes({ minRank: 1 }),
    (s) => fc.record({ dim: fc.nat(s.length - 1), shift: fc.integer({ min: -7, max: 7 }) }),
    (x, { dim, shift }) => roll(x, shift, dim),
  ),
  concat: concatenations,
  stack: stacks,
  where: selections,
  full: (dtype) =>
    fc
      .record({ shape: shapes(), value: fc.constantFrom(...fillValues.filter((x) => representable(x, dtype))) })
      .map(({ shape, value }) => ({ inputs: [], f: () => full(shape, value, dtype) })),
  iota: made(
    shapes({ minRank: 1 }).chain((shape) => fc.record({ shape: fc.constant(shape), dim: fc.nat(shape.length - 1) })),
    (dtype, { shape, dim }) => iota(shape, dim, dtype),
  ),
  "long iota": made(fc.constant(null), (dtype) => iota([600], 0, dtype)),
  constant: (dtype) =>
    shapes({ maxRank: 3 })
      .chain((shape) => arrays(dtype, shape))
      .map((host) => ({ inputs: [], f: () => constant(host) })),
  marks: onShape(
    shapes(),
    () => fc.constant(null),
    (x) => stopGradient(checkpointName(optimizationBarrier([x])[0]!, "x")),
  ),
};

export function shapeCases(numRuns = 3): OpCase[] {
  return Object.entries(families).flatMap(([name, family]) =>
    // Numbers written into a program may be flushed like any other.
    drawnCasesOf(name, family, () => (name === "full" ? exact : bits), numRuns),
  );
}
