/** A smooth use of every operation that has a derivative, on inputs away from kinks. */
import {
  composite,
  cond,
  customVjp,
  remat,
  type ScanOptions,
  scan,
  valueAndGrad,
  whileLoop,
} from "../../src/autodiff/index.ts";
import {
  checkpointName,
  clamp,
  concat,
  constant,
  cummax,
  cumprod,
  cumsum,
  dot,
  dynamicSlice,
  dynamicUpdateSlice,
  einsum,
  gather,
  hostArray,
  optimizationBarrier,
  pad,
  reducePrecision,
  repeat,
  roll,
  type Shape,
  scatterAdd,
  scatterUpdate,
  sort,
  sortPairs,
  split,
  stack,
  type Tensor,
  take,
  takeAlong,
  tile,
  topK,
  where,
} from "../../src/core/index.ts";
import { largest } from "../core/properties/callCases.ts";

export interface GradientCase {
  readonly name: string;
  readonly shapes: readonly Shape[];
  /** Values of the inputs lie between the two numbers (default −2 and 2), none within 0.02 of another. */
  readonly range?: readonly [number, number];
  readonly f: (...inputs: Tensor[]) => Tensor;
}

const ids = (shape: Shape, list: number[]) => constant(hostArray(shape, "int32", Int32Array.from(list)));

const unary = (name: string, f: (x: Tensor) => Tensor, range?: readonly [number, number]): GradientCase => ({
  name,
  shapes: [[2, 3]],
  f: (x) => f(x!),
  ...(range && { range }),
});

const binary = (
  name: string,
  f: (a: Tensor, b: Tensor) => Tensor,
  range?: readonly [number, number],
): GradientCase => ({
  name,
  shapes: [
    [2, 3],
    [2, 3],
  ],
  f: (a, b) => f(a!, b!),
  ...(range && { range }),
});

const elementwise: GradientCase[] = [
  unary("neg", (x) => x.neg()),
  unary("abs", (x) => x.abs()),
  unary("exp", (x) => x.exp()),
  unary("log", (x) => x.log(), [0.3, 3]),
  unary("log1p", (x) => x.log1p(), [-0.7, 3]),
  unary("expm1", (x) => x.expm1()),
  unary("sqrt", (x) => x.sqrt(), [0.3, 3]),
  unary("rsqrt", (x) => x.rsqrt(), [0.3, 3]),
  unary("tanh", (x) => x.tanh()),
  unary("sigmoid", (x) => x.sigmoid()),
  unary("erf", (x) => x.erf()),
  unary("sin", (x) => x.sin()),
  unary("cos", (x) => x.cos()),
  unary("pow of a number", (x) => x.pow(3)),
  unary("steps have none", (x) => x.mul(3).add(x.floor()).add(x.ceil()).add(x.sign()).add(x.roundEven()), [0.6, 0.9]),
  binary("add", (a, b) => a.add(b)),
  binary("sub", (a, b) => a.sub(b)),
  binary("mul", (a, b) => a.mul(b)),
  binary("div", (a, b) => a.div(b), [0.5, 3]),
  binary("rem", (a, b) => a.mul(5).rem(b), [0.5, 0.9]),
  binary("pow", (a, b) => a.pow(b), [0.4, 2]),
  binary("max", (a, b) => a.max(b)),
  binary("min", (a, b) => a.min(b)),
  binary("where", (a, b) => where(a.lt(b), a.mul(2), b.mul(b))),
  unary("clamp", (x) => clamp(x, -1, 1)),
  unary("reducePrecision", (x) => reducePrecision(x.mul(x), { exponentBits: 11, mantissaBits: 52 })),
  unary("convert", (x) => x.astype("float64").astype(x.dtype)),
];

const shaping: GradientCase[] = [
  unary("reshape", (x) => x.reshape([3, 2]).sin()),
  unary("transpose", (x) => x.transpose().reshape([2, 3]).mul(x)),
  { name: "broadcast", shapes: [[2, 1], [3]], f: (a, b) => a!.mul(b!).add(a!.broadcastTo([4, 2, 3])) },
  { name: "slice", shapes: [[5, 4]], f: (x) => x!.slice([1, 0], [5, 4], [2, 3]).sin() },
  {
    name: "slice to nothing",
    shapes: [[3, 2]],
    f: (x) =>
      x!
        .sin()
        .sum()
        .add(x!.narrow(0, 1, 0).sum()),
  },
  { name: "at", shapes: [[3, 2]], f: (x) => x!.at(0, 1).mul(x!.at(0, 2)) },
  { name: "reverse", shapes: [[3, 2]], f: (x) => x!.reverse([0]).mul(x!) },
  {
    name: "pad",
    shapes: [[2, 3]],
    f: (x) => pad(x!, { low: [1, 0], high: [0, 2], interior: [2, 1], value: 1 }).sin(),
  },
  {
    name: "concat",
    shapes: [
      [2, 1],
      [2, 2],
    ],
    f: (a, b) => concat([a!, b!, a!], 1).sin(),
  },
  {
    name: "dynamicSlice",
    shapes: [[4, 3]],
    f: (x) => dynamicSlice(x!, [ids([], [9]), 1], [2, 2]).sin(),
  },
  {
    name: "dynamicUpdateSlice",
    shapes: [
      [4, 3],
      [2, 2],
    ],
    f: (x, update) => dynamicUpdateSlice(x!, update!.sin(), [ids([], [1]), 0]).mul(x!),
  },
  {
    name: "split, tile, repeat and roll",
    shapes: [[2, 4]],
    f: (x) => {
      const [a, b] = split(x!, 2, 1) as [Tensor, Tensor];
      return tile(a, [1, 2])
        .mul(repeat(b, 2, 1))
        .mul(roll(x!, 1, 1));
    },
  },
  { name: "stack", shapes: [[2], [2]], f: (a, b) => stack([a!, b!], 1).sin() },
];

const reducing: GradientCase[] = [
  { name: "sum", shapes: [[2, 3, 2]], f: (x) => x!.sum([0, 2]).sin() },
  { name: "mean", shapes: [[2, 3]], f: (x) => x!.mean(1, { keepDims: true }).mul(x!) },
  { name: "maxOver", shapes: [[3, 4]], f: (x) => x!.maxOver(1).mul(x!.maxOver()) },
  { name: "minOver", shapes: [[3, 4]], f: (x) => x!.minOver(0).sin() },
  { name: "prod", shapes: [[2, 3, 2]], f: (x) => x!.prod([0, 2]).sin().mul(x!.prod(1).sum()) },
  {
    name: "prod with zeros",
    shapes: [[7]],
    f: (x) => {
      const mask = (zeros: number[]) => constant(hostArray([7], "float32", Float32Array.from(zeros))).astype(x!.dtype);
      return x!
        .mul(mask([1, 1, 0, 1, 1, 1, 1]))
        .prod()
        .add(x!.mul(mask([1, 1, 0, 1, 0, 1, 1])).prod());
    },
  },
  { name: "cumsum", shapes: [[2, 5]], f: (x) => cumsum(x!, 1, { exclusive: true }).sin() },
  { name: "cumprod", shapes: [[5, 2]], f: (x) => cumprod(x!, 0, { reverse: true }).sin() },
  {
    name: "cumprod with zeros",
    shapes: [[7]],
    f: (x) =>
      cumprod(x!.mul(constant(hostArray([7], "float32", Float32Array.of(1, 1, 0, 1, 0, 1, 1))).astype(x!.dtype)), 0),
  },
  {
    name: "cummax",
    shapes: [[2, 6]],
    f: (x) =>
      cummax(x!, 1)
        .mul(cummax(x!, 0, { reverse: true }))
        .sin(),
  },
  {
    name: "dot",
    shapes: [
      [2, 3],
      [3, 4],
    ],
    f: (a, b) => dot(a!, b!).sin(),
  },
  { name: "dot of vectors", shapes: [[3], [3]], f: (a, b) => dot(a!, b!) },
  { name: "dot with itself", shapes: [[3, 3]], f: (a) => dot(a!, a!) },
  {
    name: "einsum",
    shapes: [
      [2, 3],
      [3, 2, 2],
      [2, 4],
    ],
    f: (a, b, c) => einsum("ij,jki,kl->li", [a!, b!, c!]).sin(),
  },
  {
    name: "dot with dims in any order",
    shapes: [
      [3, 2, 4, 2],
      [2, 3, 3, 4],
    ],
    f: (a, b) =>
      dot(a!, b!, {
        contract: [
          [2, 0],
          [3, 2],
        ],
        batch: [[3], [0]],
      }).sin(),
  },
  {
    name: "outer product",
    shapes: [[2], [3]],
    f: (a, b) => dot(a!, b!, { contract: [[], []] }).sin(),
  },
];

const indexing: GradientCase[] = [
  { name: "take", shapes: [[3, 2]], f: (table) => take(table!, ids([2, 2], [0, 2, 2, -1])).sin() },
  {
    name: "scatterAdd",
    shapes: [
      [3, 2],
      [4, 2],
    ],
    f: (target, updates) => scatterAdd(target!, ids([4], [1, 1, 0, 7]), updates!).sin(),
  },
  {
    name: "gather",
    shapes: [[3, 2, 4]],
    f: (x) => gather(x!, [ids([2, 1], [0, 5]), null, ids([3], [1, 1, 3])], { outside: "zero" }).sin(),
  },
  {
    name: "scatterUpdate",
    shapes: [
      [3, 4],
      [3, 5],
    ],
    f: (target, updates) => scatterUpdate(target!, [null, ids([5], [1, 3, 1, 9, 0])], updates!.sin()).mul(target!),
  },
  { name: "takeAlong of several", shapes: [[3, 4]], f: (x) => takeAlong(x!, ids([3, 2], [0, 3, 9, 1, 2, 2]), 1).sin() },
  { name: "sort", shapes: [[3, 4]], f: (x) => sort(x!, 0, { descending: true }).sin() },
  {
    name: "sortPairs",
    shapes: [
      [2, 4],
      [2, 4],
    ],
    f: (keys, x) => {
      const sorted = sortPairs(keys!, [x!], 1);
      return sorted.values[0]!.sin().mul(sorted.keys);
    },
  },
  { name: "topK", shapes: [[3, 5]], f: (x) => topK(x!, 2).values.sin() },
  { name: "takeAlong", shapes: [[3, 4]], f: (x) => takeAlong(x!, ids([3, 1], [0, 3, 9]), 1).sin() },
];

const marking: GradientCase[] = [
  binary("optimizationBarrier", (a, b) => {
    const [x, y] = optimizationBarrier([a.sin(), b]);
    return x!.mul(y!).add(x!);
  }),
  unary("checkpointName", (x) => checkpointName(x.sin(), "s").mul(x)),
  binary("composite", (a, b) => composite("test.f", (x: Tensor) => [x.sin().mul(b), x])(a.mul(b))[0]!.mul(a)),
  binary("composite in remat", (a, b) =>
    remat((x: Tensor, y: Tensor) => composite("test.f", (t: Tensor) => remat((s: Tensor) => s.sin())(t).mul(y))(x))(
      a.mul(b),
      b.sin(),
    ).sin(),
  ),
  { name: "customCall", shapes: [[2, 5]], f: (x) => largest(x!, 2)[0]!.sin() },
  binary("remat", (a, b) => remat((x: Tensor) => x.sin().mul(b).tanh())(a.mul(b))),
  unary(
    "customVjp",
    customVjp({
      fwd: (x: Tensor) => ({ out: x.sin(), residuals: x }),
      bwd: (x, ct) => [ct.mul(x.cos())],
    }),
  ),
];

/** h ← tanh(h·w + x), y = h·c, with captures both used and unused. */
const recurrence =
  (options: ScanOptions = {}) =>
  (w: Tensor, h0: Tensor, xs: Tensor): Tensor => {
    const scale = w.sum().sin();
    const { carry, ys } = scan(
      (h: Tensor, x: Tensor) => {
        const next = dot(h, w).add(x).tanh();
        return { carry: next, y: next.mul(scale).sum() };
      },
      h0,
      xs,
      options,
    );
    return concat([carry, ys], 0);
  };

const recurrenceShapes: Shape[] = [[2, 2], [2], [3, 2]];

const looping: GradientCase[] = [
  { name: "scan", shapes: recurrenceShapes, f: (w, h, xs) => recurrence()(w!, h!, xs!) },
  { name: "scan in reverse", shapes: recurrenceShapes, f: (w, h, xs) => recurrence({ reverse: true })(w!, h!, xs!) },
  { name: "unrolled scan", shapes: recurrenceShapes, f: (w, h, xs) => recurrence({ unroll: 2 })(w!, h!, xs!) },
  {
    name: "unrolled scan in reverse",
    shapes: recurrenceShapes,
    f: (w, h, xs) => recurrence({ reverse: true, unroll: 3 })(w!, h!, xs!),
  },
  {
    name: "scan with trees and a counter",
    shapes: [[2], [3, 2]],
    f: (a, xs) => {
      const { carry, ys } = scan(
        ({ i, s }: { i: Tensor; s: Tensor }, { x }: { x: Tensor }) => {
          const weight = i.astype(x.dtype).add(1);
          return { carry: { i: i.add(1), s: s.mul(x).add(weight) }, y: { out: s.mul(weight), again: [x] } };
        },
        { i: ids([], [0]), s: a! },
        { x: xs! },
      );
      return concat([carry.s.reshape([1, 2]), ys.out, ys.again[0]!.sin()], 0);
    },
  },
  {
    name: "scan in scan",
    shapes: recurrenceShapes,
    f: (w, h, xs) =>
      scan(
        (outer: Tensor, x: Tensor) => {
          const inner = scan(
            (h: Tensor, row: Tensor) => ({ carry: dot(h, w!).add(x).mul(row).sin(), y: h.sum() }),
            outer,
            w!,
          );
          return { carry: inner.carry, y: inner.ys.sum().mul(outer) };
        },
        h!,
        xs!,
      ).ys,
  },
  {
    name: "scan in remat",
    shapes: recurrenceShapes,
    f: (w, h, xs) => remat(recurrence())(w!.sin(), h!.mul(2), xs!.cos()).sin(),
  },
  {
    name: "remat in scan",
    shapes: recurrenceShapes,
    f: (w, h, xs) => {
      const step = remat((h: Tensor, x: Tensor) => dot(h.sin(), w!).add(x).tanh());
      return scan((h: Tensor, x: Tensor) => ({ carry: step(h, x), y: step(x, h) }), h!, xs!).ys;
    },
  },
  {
    name: "remat in scan in remat",
    shapes: recurrenceShapes,
    f: (w, h, xs) =>
      remat((w: Tensor, h: Tensor) => {
        const step = remat((h: Tensor, x: Tensor) => dot(h.sin(), w).add(x).tanh());
        return scan((h: Tensor, x: Tensor) => ({ carry: step(h, x), y: null }), h, xs!).carry.sin();
      })(w!, h!),
  },
  {
    name: "customVjp in scan",
    shapes: recurrenceShapes,
    f: (w, h, xs) => {
      const product = customVjp({
        fwd: (a: Tensor, b: Tensor) => ({ out: dot(a, b), residuals: { a, b } }),
        bwd: ({ a, b }, ct) => [dot(ct, b, { contract: [[0], [1]] }), dot(a, ct, { contract: [[], []] })],
      });
      return scan((h: Tensor, x: Tensor) => ({ carry: product(h, w!).sin(), y: x.mul(h) }), h!, xs!).ys;
    },
  },
];

/** x·w through sin where the sum of x is positive, else w·x², both with captures and values that their reverse reads. */
const chosen =
  (pred: (x: Tensor) => Tensor = (x) => x.sum().gt(0)) =>
  (w: Tensor, x: Tensor): Tensor =>
    cond(
      pred(x),
      (x: Tensor) => dot(x.sin(), w).tanh().mul(x),
      (x: Tensor) => dot(w, x.mul(x)).exp().tanh(),
      x,
    );

const no = (x: Tensor) => x.sum().gt(1e9);
const yes = (x: Tensor) => x.sum().lt(1e9);

const choosing: GradientCase[] = [
  { name: "cond, true", shapes: [[2, 2], [2]], f: (w, x) => chosen(yes)(w!, x!).sin() },
  { name: "cond, false", shapes: [[2, 2], [2]], f: (w, x) => chosen(no)(w!, x!).sin() },
  {
    name: "cond of what is outside alone, with an int among the results",
    shapes: [[3], [3]],
    f: (a, b) => {
      const { y, n } = cond(
        a!.sum().lt(1e9),
        () => ({ y: a!.mul(b!).sin(), n: ids([3], [1, 2, 3]) }),
        () => ({ n: ids([3], [4, 5, 6]), y: b!.exp() }),
      );
      return y.mul(n.astype(y.dtype));
    },
  },
  {
    name: "cond in cond",
    shapes: [[2, 2], [2]],
    f: (w, x) =>
      cond(
        yes(x!),
        () =>
          cond(
            no(x!),
            () => x!.exp(),
            () => chosen(yes)(w!, x!.cos()).mul(x!),
          ),
        () => x!,
      ).sin(),
  },
  {
    name: "cond in scan",
    shapes: recurrenceShapes,
    f: (w, h, xs) =>
      scan(
        ({ i, h }: { i: Tensor; h: Tensor }, x: Tensor) => ({
          carry: { i: i.add(1), h: chosen(() => i.rem(2).eq(0))(w!, h.add(x)) },
          y: h,
        }),
        { i: ids([], [0]), h: h! },
        xs!,
      ).carry.h,
  },
  {
    name: "scan in cond, in remat",
    shapes: recurrenceShapes,
    f: (w, h, xs) =>
      remat((w: Tensor, h: Tensor) =>
        cond(
          yes(h),
          () => recurrence()(w.sin(), h, xs!),
          () => xs!.sum(1).reshape([3]).at(0, 0).broadcastTo([5]),
        ),
      )(w!, h!).cos(),
  },
  {
    name: "remat in cond in scan",
    shapes: recurrenceShapes,
    f: (w, h, xs) => {
      const step = remat((h: Tensor, x: Tensor) => dot(h.sin(), w!).add(x).tanh());
      return scan((h: Tensor, x: Tensor) => ({ carry: cond(yes(h), step, (h: Tensor) => h, h, x), y: h }), h!, xs!).ys;
    },
  },
  {
    name: "whileLoop of integers",
    shapes: [[3]],
    f: (x) => {
      const n = whileLoop(
        (n: Tensor) => n.lt(20),
        (n: Tensor) => n.mul(3),
        ids([], [1]),
      );
      return x!.mul(n.astype(x!.dtype)).sin();
    },
  },
];

/** Gradients, to be derived again. */
const second: GradientCase[] = [
  unary("second derivative", (x) => valueAndGrad((x: Tensor) => x.sin().mul(x).exp().sum())(x).grad),
  {
    name: "second derivative of scan",
    shapes: recurrenceShapes,
    f: (w, h, xs) => valueAndGrad((w: Tensor) => recurrence()(w, h!, xs!).sin().sum())(w!).grad.sin(),
  },
  {
    name: "second derivative of cond",
    shapes: [[2, 2], [2]],
    f: (w, x) =>
      ((w: Tensor) => [no, yes].map((p) => valueAndGrad((w: Tensor) => chosen(p)(w, x!).sin().sum())(w).grad))(w!)
        .reduce((a, b) => a.add(b.mul(2)))
        .sin(),
  },
  {
    name: "second derivative of remat",
    shapes: [[2, 2], [2]],
    f: (w, x) =>
      valueAndGrad((w: Tensor) =>
        remat((x: Tensor) => dot(x, w).tanh())(x!)
          .sin()
          .sum(),
      )(w!).grad,
  },
  {
    name: "second derivative of scan in scan",
    shapes: [[2], [2, 2]],
    f: (h, xs) => {
      const nested = (h: Tensor) =>
        scan(
          (outer: Tensor, x: Tensor) => {
            const inner = scan((s: Tensor) => ({ carry: s.mul(x).sin(), y: s }), outer, null, { length: 2 });
            return { carry: inner.carry, y: inner.ys.sum(0).mul(x) };
          },
          h,
          xs!,
        ).ys.sum();
      return valueAndGrad(nested)(h!).grad;
    },
  },
];

const combined: GradientCase[] = [
  {
    name: "softmax cross-entropy of an embedding",
    shapes: [
      [4, 3],
      [4, 3],
    ],
    f: (table, head) => {
      const logits = dot(take(table!, ids([3], [0, 2, 2])), head!, { contract: [[1], [1]] });
      const shifted = logits.sub(logits.maxOver(1, { keepDims: true }));
      const logSumExp = shifted.exp().sum(1, { keepDims: true }).log();
      return takeAlong(shifted.sub(logSumExp), ids([3, 1], [1, 2, 3]), 1).mean();
    },
  },
  {
    name: "root mean square norm",
    shapes: [[2, 4], [4]],
    f: (x, g) => x!.mul(x!.mul(x!).mean(1, { keepDims: true }).add(1e-5).rsqrt()).mul(g!),
  },
];

export const gradientCases: readonly GradientCase[] = [
  ...elementwise,
  ...shaping,
  ...reducing,
  ...indexing,
  ...marking,
  ...looping,
  ...choosing,
  ...second,
  ...combined,
];
