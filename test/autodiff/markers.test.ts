/** Functions with rules of their own, values without a derivative, and what is kept for the backward pass. */
import { describe, expect, it } from "vitest";
import { customVjp, grad, remat, scan, valueAndGrad, vjp } from "../../src/autodiff/index.ts";
import {
  checkpointName,
  dot,
  type HostArray,
  hostArray,
  interpret,
  type Program,
  stopGradient,
  type Tensor,
  trace,
  zeros,
} from "../../src/core/index.ts";
import { operationsIn } from "../core/properties/families.ts";

const f64 = (shape: number[], f: (i: number) => number = (i) => Math.sin(i + 1)): HostArray =>
  hostArray(
    shape,
    "float64",
    Float64Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
  );

const numbers = (host: unknown): number[] => Array.from((host as HostArray).data as Float64Array);

function run(f: (...args: never[]) => unknown, ...args: unknown[]): unknown {
  return interpret(f as never, ...(args as never[]));
}

/** Equations of an operation in a program, those in the bodies of loops included. */
function count(program: Program, name: string): number {
  return operationsIn(program).filter((op) => op.name === name).length;
}

const x = f64([3]);

describe("stopGradient", () => {
  it("keeps the value and has no derivative", () => {
    const f = (x: Tensor) => x.mul(stopGradient(x)).sum();
    const { value, grad } = run((x: Tensor) => valueAndGrad(f)(x), x) as { value: HostArray; grad: HostArray };
    expect(numbers(value)[0]).toBeCloseTo(numbers(x).reduce((s, v) => s + v * v, 0));
    expect(numbers(grad)).toEqual(numbers(x));
  });

  it("holds where a loop captures it, inside a loop, and as a loop's carry", () => {
    const outside = (x: Tensor) => {
      const fixed = stopGradient(x.mul(2));
      return scan((c: Tensor) => ({ carry: c.add(fixed), y: null }), x, null, { length: 2 }).carry.sum();
    };
    const inside = (x: Tensor) =>
      scan((c: Tensor) => ({ carry: stopGradient(c).mul(x), y: null }), x, null, { length: 2 }).carry.sum();
    const carried = (x: Tensor) =>
      scan((c: Tensor) => ({ carry: stopGradient(c.mul(x)), y: c }), x, null, { length: 2 }).carry.sum();
    expect(numbers(run((x: Tensor) => grad(outside)(x), x))).toEqual([1, 1, 1]);
    const squares = numbers(x).map((v) => v * v);
    numbers(run((x: Tensor) => grad(inside)(x), x)).forEach((g, i) => expect(g).toBeCloseTo(squares[i]!));
    expect(numbers(run((x: Tensor) => grad(carried)(x), x))).toEqual([0, 0, 0]);
  });

  it("holds in second derivatives through a loop", () => {
    const f = (x: Tensor) =>
      scan((c: Tensor) => ({ carry: c.mul(x).mul(stopGradient(x)), y: null }), x, null, { length: 1 }).carry.sum();
    // f = x·x·[x], f' = 2x[x], f'' = 2[x] where only the unstopped factors count.
    const twice = (x: Tensor) => grad((x: Tensor) => grad(f)(x).sum())(x);
    numbers(run(twice, x)).forEach((g, i) => expect(g).toBeCloseTo(2 * numbers(x)[i]!));
  });
});

describe("ties", () => {
  it("max and min give the whole cotangent to the left operand, and none to the loser where it is infinite", () => {
    const f = (a: Tensor, b: Tensor) => {
      const { out, pullback } = vjp((a: Tensor, b: Tensor) => a.max(b).add(a.min(b)), a, b);
      return pullback(out.mul(0).add(Infinity));
    };
    const [da, db] = run(
      f,
      f64([2], () => 1),
      f64([2], () => 1),
    ) as [HostArray, HostArray];
    expect(numbers(da)).toEqual([Infinity, Infinity]);
    expect(numbers(db)).toEqual([0, 0]);
  });

  it("maxOver shares the cotangent among equal elements", () => {
    const g = run(
      (x: Tensor) => grad((x: Tensor) => x.maxOver().mul(6))(x),
      f64([4], (i) => [1, 3, 3, 3][i]!),
    );
    expect(numbers(g)).toEqual([0, 2, 2, 2]);
  });

  it("abs has no slope at zero, and powers of zero have finite ones", () => {
    const g = run(
      (x: Tensor) => grad((x: Tensor) => x.abs().add(x.pow(2)).add(x.pow(0)).sum())(x),
      f64([1], () => 0),
    );
    expect(numbers(g)).toEqual([0]);
  });
});

describe("customVjp", () => {
  it("takes trees, gives trees, and null for an argument without a derivative", () => {
    const f = customVjp({
      fwd: ({ a, b }: { a: Tensor; b: Tensor[] }, options: { scale: Tensor }) => ({
        out: { y: a.mul(b[0]!).mul(options.scale), z: [b[1]!] },
        residuals: { first: [a, b[0]!], scale: options.scale },
      }),
      bwd: ({ first: [a, b], scale }, { y, z }) => [
        { a: y.mul(b!).mul(scale), b: [y.mul(a!).mul(scale), z[0]!.mul(10)] },
        null,
      ],
    });
    const g = run(
      (p: { a: Tensor; b: Tensor[] }, s: Tensor) =>
        grad(({ p, s }: { p: { a: Tensor; b: Tensor[] }; s: Tensor }) => {
          const { y, z } = f(p, { scale: s });
          return y.add(z[0]!).sum();
        })({ p, s }),
      { a: f64([2], () => 3), b: [f64([2], () => 5), f64([2], () => 7)] },
      f64([2], () => 2),
    ) as { p: { a: HostArray; b: HostArray[] }; s: HostArray };
    expect(numbers(g.p.a)).toEqual([10, 10]);
    expect(numbers(g.p.b[0])).toEqual([6, 6]);
    expect(numbers(g.p.b[1])).toEqual([10, 10]);
    expect(numbers(g.s)).toEqual([0, 0]);
  });

  it("matches trees by name, not by order", () => {
    const f = customVjp({
      fwd: ({ a, b }: { a: Tensor; b: Tensor }) => ({ out: a.add(b), residuals: null }),
      bwd: (_, ct) => [{ b: ct.mul(2), a: ct.mul(3) }],
    });
    const g = run((a: Tensor, b: Tensor) => grad((p: { a: Tensor; b: Tensor }) => f(p).sum())({ a, b }), x, x);
    expect(numbers((g as { a: HostArray }).a)).toEqual([3, 3, 3]);
    expect(numbers((g as { b: HostArray }).b)).toEqual([2, 2, 2]);
  });

  it("gives bwd a zero for a result that the loss does not read", () => {
    let seen: Tensor | undefined;
    const f = customVjp({
      fwd: (x: Tensor) => ({ out: [x.mul(2), x.mul(3)], residuals: null }),
      bwd: (_, [a, b]) => {
        seen = b;
        return [a!.add(b!)];
      },
    });
    expect(numbers(run((x: Tensor) => grad((x: Tensor) => f(x)[0]!.sum())(x), x))).toEqual([1, 1, 1]);
    expect(seen?.eqn?.op.name).toBe("full");
  });

  it("says what is wrong with the cotangents", () => {
    const bad = (bwd: () => [Tensor | { y: Tensor }]) =>
      customVjp({ fwd: (x: Tensor) => ({ out: x, residuals: null }), bwd: bwd as never });
    const gradOf = (f: (x: Tensor) => Tensor) => () => trace((x: Tensor) => grad((x: Tensor) => f(x).sum())(x), x);
    expect(gradOf(bad(() => [zeros([2], "float64")]))).toThrow(/customVjp: .*float64\[3\].*float64\[2\]/);
    expect(gradOf(bad(() => [{ y: zeros([3], "float64") }]))).toThrow(/customVjp/);
  });

  it("is used where its result is a loop's carry, and by markers around it", () => {
    const tenfold = customVjp({
      fwd: (x: Tensor) => ({ out: x.mul(1), residuals: null }),
      bwd: (_, ct) => [ct.mul(10)],
    });
    const loop = (x: Tensor) =>
      scan((c: Tensor) => ({ carry: tenfold(c), y: null }), x, null, { length: 3 }).carry.sum();
    expect(numbers(run((x: Tensor) => grad(loop)(x), x))).toEqual([1000, 1000, 1000]);
    const rematted = (x: Tensor) => remat(tenfold)(checkpointName(tenfold(x), "t")).sum();
    expect(numbers(run((x: Tensor) => grad(rematted)(x), x))).toEqual([100, 100, 100]);
  });
});

describe("remat", () => {
  const w = f64([3, 3]);
  const layer = (w: Tensor, x: Tensor) => checkpointName(dot(x, w), "product").tanh().sin();
  const gradient = (f: (w: Tensor, x: Tensor) => Tensor) => (w: Tensor, x: Tensor) =>
    grad((w: Tensor) => f(w, f(w, x)).sum())(w);

  it.each([
    ["nothing: all is computed again", {}, { dot: 3, tanh: 3 }],
    ["contractions", { dots: true }, { dot: 2, tanh: 3 }],
    ["a name", { names: ["product"] }, { dot: 2, tanh: 3 }],
    ["another name", { names: ["other"] }, { dot: 3, tanh: 3 }],
  ])("saves %s", (_, policy, { dot: dots, tanh }) => {
    // Forward: both products where they are kept, else the first layer alone, whose result the second one reads.
    const program = trace(gradient(remat(layer, policy)), w, x);
    const backwardDots = 3; // dW twice, dx once
    expect(count(program, "dot") - backwardDots).toBe(dots);
    expect(count(program, "tanh")).toBe(tanh);
    expect(count(program, "optimization_barrier")).toBe(2);
    const [got, wanted] = [gradient(remat(layer, policy)), gradient(layer)].map((f) => numbers(run(f, w, x)));
    got!.forEach((g, i) => expect(g).toBeCloseTo(wanted![i]!, 12));
  });

  it("without a derivative leaves no trace", () => {
    const program = trace((w: Tensor, x: Tensor) => remat(layer)(w, x), w, x);
    expect(program.eqns.map(({ op }) => op.name)).toEqual(["dot", "checkpoint_name", "tanh", "sin"]);
  });

  it("differentiates what it captures, also where that alone makes a result", () => {
    const f = (x: Tensor) => {
      const { twice, square, same } = remat((y: Tensor) => ({ twice: y.mul(2), square: x.mul(x), same: x }))(x);
      return twice.add(square).add(same).sum();
    };
    // 2x + x² + x
    numbers(run((x: Tensor) => grad(f)(x), x)).forEach((g, i) => expect(g).toBeCloseTo(3 + 2 * numbers(x)[i]!));
  });

  it("is used where its result is a loop's carry", () => {
    const step = remat((c: Tensor) => c.sin().tanh());
    const f = (x: Tensor) =>
      grad((x: Tensor) => scan((c: Tensor) => ({ carry: step(c), y: null }), x, null, { length: 3 }).carry.sum())(x);
    expect(count(trace(f, x), "optimization_barrier")).toBe(1);
    const stacked = trace(f, x).eqns.filter(({ op }) => op.name === "scan");
    // The forward loop stacks the carry alone.
    expect(stacked[0]!.outputs.length).toBe(2);
  });
});

describe("grad", () => {
  it("refuses what is no scalar and passes aux through", () => {
    expect(() => trace((x: Tensor) => grad((x: Tensor) => x)(x), x)).toThrow(/must return a scalar; got float64\[3\]/);
    const {
      value,
      aux,
      grad: g,
    } = run(
      (x: Tensor) => valueAndGrad((x: Tensor) => ({ value: x.sum(), aux: { twice: x.mul(2) } }), { aux: true })(x),
      x,
    ) as { value: HostArray; aux: { twice: HostArray }; grad: HostArray };
    expect(numbers(value)[0]).toBeCloseTo(numbers(x).reduce((a, b) => a + b));
    expect(numbers(aux.twice)).toEqual(numbers(x).map((v) => 2 * v));
    expect(numbers(g)).toEqual([1, 1, 1]);
  });

  it("is zero for leaves that the loss does not read, and for integers", () => {
    const f = (p: { a: Tensor; unused: Tensor; index: Tensor }) => p.a.sum();
    const g = run((p: Parameters<typeof f>[0]) => grad(f)(p), {
      a: x,
      unused: x,
      index: hostArray([2], "int32", Int32Array.of(1, 2)),
    }) as Record<string, HostArray>;
    expect(numbers(g.unused)).toEqual([0, 0, 0]);
    expect(g.index?.dtype).toBe("int32");
    expect(numbers(g.index)).toEqual([0, 0]);
  });

  it("counts a leaf used in several places of the tree apart", () => {
    const f = (x: Tensor) => grad((p: { a: Tensor; b: Tensor }) => p.a.mul(2).add(p.b.mul(3)).sum())({ a: x, b: x });
    const g = run(f, x) as { a: HostArray; b: HostArray };
    expect([numbers(g.a)[0], numbers(g.b)[0]]).toEqual([2, 3]);
  });

  it("sums cotangents of narrow dtypes", () => {
    const f = (x: Tensor) =>
      grad((x: Tensor) => {
        const narrow = x.astype("float8_e5m2");
        return narrow.astype("float64").add(narrow.astype("float64").mul(2)).sum();
      })(x);
    expect(numbers(run(f, x))).toEqual([3, 3, 3]);
  });

  it("pulls trees of cotangents back, as often as wanted", () => {
    const f = (x: Tensor) => {
      const { pullback } = vjp((x: Tensor) => ({ a: x.mul(2), b: [x.mul(x)] }), x);
      const one = zeros([3], "float64").add(1);
      return [pullback({ a: one, b: [one] })[0], pullback({ b: [one.mul(0)], a: one })[0]];
    };
    const [first, second] = run(f, x) as HostArray[];
    numbers(first).forEach((g, i) => expect(g).toBeCloseTo(2 + 2 * numbers(x)[i]!));
    expect(numbers(second)).toEqual([2, 2, 2]);
  });
});
