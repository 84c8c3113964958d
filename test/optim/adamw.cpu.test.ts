import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, interpret, type Tensor, treeLeaves } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { type AdamWSettings, type AdamWState, adamw, clipByGlobalNorm } from "../../src/optim/index.ts";
import { selectTree } from "../../src/optim/selectTree.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { bitsOf, floats, scalarOf, valuesOf } from "./floats.ts";

interface Params<Leaf> {
  w: Leaf;
  norm: Leaf;
}
interface State<Leaf> {
  params: Params<Leaf>;
  adam: { count: Leaf; mu: Params<Leaf>; nu: Params<Leaf> };
}

const settings: AdamWSettings = { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 };

/** One step of training as the trainer writes it: clip, update, skip where the gradient is not finite. */
const makeStep = (overrides: Partial<AdamWSettings> = {}, threshold = 0) => {
  const optimizer = adamw({ ...settings, ...overrides });
  return (state: State<Tensor>, grads: Params<Tensor>, learningRate: Tensor): State<Tensor> => {
    const clipped = clipByGlobalNorm(grads, threshold);
    const { params, state: adam } = optimizer.update({
      grads: clipped.grads,
      state: state.adam,
      params: state.params,
      learningRate,
      finite: clipped.finite,
    });
    return { params, adam };
  };
};

const clippedStep = makeStep({}, 1);

const start = (): State<HostArray> => {
  const params = { w: floats([4, 3], (i) => Math.sin(i)), norm: floats([3], () => 1) };
  const zero = () => ({ w: floats([4, 3], () => 0), norm: floats([3], () => 0) });
  return { params, adam: { count: hostArray([], "int32", Int32Array.of(0)), mu: zero(), nu: zero() } };
};

const gradsAt = (t: number, normGrad = 1): Params<HostArray> => ({
  w: floats([4, 3], (i) => Math.cos(i * 3 + t)),
  norm: floats([3], (i) => normGrad * Math.sin(i + t)),
});

const rate = floats([], () => 0.01);

type Step = ReturnType<typeof makeStep>;
const compiledSteps = new Map<Step, ReturnType<typeof jit<Parameters<Step>, State<Tensor>>>>();

async function run(step: Step, state: State<HostArray>, grads: readonly Params<HostArray>[]) {
  const compiled = compiledSteps.get(step) ?? jit(step);
  compiledSteps.set(step, compiled);
  let now = state;
  for (const g of grads) {
    now = await fetchAndFree<State<HostArray>>(compiled(now as never, g as never, rate));
  }
  return now;
}

/** Textbook AdamW in float64 for one parameter. */
function reference(p: number, grads: readonly number[], weightDecay: number): number {
  let [m, v, x] = [0, 0, p];
  grads.forEach((g, i) => {
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    const direction = m / (1 - 0.9 ** (i + 1)) / (Math.sqrt(v / (1 - 0.95 ** (i + 1))) + 1e-8);
    x -= 0.01 * (direction + weightDecay * x);
  });
  return x;
}

describe("adamw", () => {
  const twenty = Array.from({ length: 20 }, (_, t) => gradsAt(t));

  it("is AdamW: 20 steps against float64, matrices decayed, vectors not", async () => {
    const { params, adam } = await run(makeStep(), start(), twenty);
    expect(scalarOf(adam.count)).toBe(20);
    const check = (name: "w" | "norm", weightDecay: number) =>
      valuesOf(params[name]).forEach((x, i) => {
        const first = valuesOf(start().params[name])[i]!;
        const wanted = reference(
          first,
          twenty.map((g) => valuesOf(g[name])[i]!),
          weightDecay,
        );
        expect(Math.abs(x - wanted)).toBeLessThan(2e-6);
      });
    check("w", 0.1);
    check("norm", 0);
  });

  it("compiled equals interpreted", async () => {
    const state = await run(clippedStep, start(), twenty.slice(0, 1));
    const wanted = interpret(
      makeStep({}, 1),
      start() as never,
      twenty[0] as never,
      rate,
    ) as unknown as State<HostArray>;
    const [a, b] = [treeLeaves<HostArray>(state), treeLeaves<HostArray>(wanted)];
    a.forEach((array, i) => {
      valuesOf(array).forEach((x, j) => {
        expect(Math.abs(x - valuesOf(b[i]!)[j]!)).toBeLessThan(1e-6);
      });
    });
  });

  it("C6: leaves norm weights at exactly 1 under a decay of 0.5 when their gradient is 0", async () => {
    const grads = twenty.map((_, t) => gradsAt(t, 0));
    const { params } = await run(makeStep({ weightDecay: 0.5 }), start(), grads);
    expect(valuesOf(params.norm)).toEqual([1, 1, 1]);
    const decayed = await run(makeStep({ weightDecay: 0.5, decay: () => true }), start(), grads);
    expect(valuesOf(decayed.params.norm)[0]).toBeCloseTo(0.995 ** 20, 5);
  });

  it("chooses what decays by path", async () => {
    const zero = [{ w: floats([4, 3], () => 0), norm: floats([3], () => 0) }];
    const { params } = await run(makeStep({ decay: (path) => path === "norm" }), start(), zero);
    expect(valuesOf(params.w)).toEqual(valuesOf(start().params.w));
    expect(valuesOf(params.norm)[0]).toBeCloseTo(0.999, 6);
  });

  it("keeps every bit of parameters, moments and count in a step that is not finite, and goes on", async () => {
    const before = await run(clippedStep, start(), twenty.slice(0, 4));
    (before.params.w.data as Float32Array)[0] = -0;
    (before.adam.mu.w.data as Float32Array)[1] = -0;
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const grads = gradsAt(5);
      (grads.w.data as Float32Array)[2] = bad;
      const after = await run(clippedStep, before, [grads]);
      const [a, b] = [treeLeaves<HostArray>(after), treeLeaves<HostArray>(before)];
      a.forEach((array, i) => {
        expect(bitsOf(array)).toEqual(bitsOf(b[i]!));
      });
      const resumed = await run(clippedStep, after, twenty.slice(4, 6));
      const straight = await run(clippedStep, before, twenty.slice(4, 6));
      expect(bitsOf(resumed.params.w)).toEqual(bitsOf(straight.params.w));
    }
  });

  it("moves by the learning rate for gradients of 1e30 and 1e-30 alike", async () => {
    const signs = (size: number) => [
      { w: floats([4, 3], (i) => (i % 2 ? size : -size)), norm: floats([3], () => size) },
    ];
    const undecayed = makeStep({ weightDecay: 0 }, 1);
    const huge = await run(undecayed, start(), signs(1e30));
    valuesOf(huge.params.w).forEach((x, i) => {
      expect(Math.abs(x - Math.sin(i))).toBeCloseTo(0.01, 5);
    });
    // Far below eps nothing moves, and nothing breaks.
    const tiny = await run(undecayed, start(), signs(1e-30));
    valuesOf(tiny.params.w).forEach((x, i) => {
      expect(Math.abs(x - Math.fround(Math.sin(i)))).toBeLessThan(1e-20);
    });
  });

  it("updates donated state in place", async () => {
    const shape = [1024, 1024];
    const tree = () => ({ w: { shape, dtype: "float32" }, norm: { shape: [1024], dtype: "float32" } });
    const state = { params: tree(), adam: { count: { shape: [], dtype: "int32" }, mu: tree(), nu: tree() } };
    const compiled = jit(makeStep({}, 1), { donate: [0] });
    const executable = await compiled.compile(state, tree(), { shape: [], dtype: "float32" });
    const { temporaryBytes, aliasBytes } = executable.memoryStats();
    expect(temporaryBytes).toBeLessThan(1024 * 1024);
    expect(aliasBytes).toBeGreaterThanOrEqual(3 * 4 * 1024 * 1024);
    compiled.dispose();
  });

  it("starts from zeros", () => {
    const state = interpret((p: Params<Tensor>) => adamw(settings).init(p), start().params as never);
    const { count, mu, nu } = state as unknown as AdamWState<Params<HostArray>> & { count: HostArray };
    expect(scalarOf(count)).toBe(0);
    for (const array of treeLeaves<HostArray>([mu, nu])) expect(valuesOf(array).every((x) => x === 0)).toBe(true);
  });

  it("refuses settings outside their ranges and parameters of low precision", () => {
    expect(() => adamw({ ...settings, b1: 1 })).toThrow(/b1 must be in \[0, 1\)/);
    expect(() => adamw({ ...settings, eps: 0 })).toThrow(/eps/);
    expect(() => adamw({ ...settings, weightDecay: Number.NaN })).toThrow(/weight decay/);
    const low = (p: Tensor) => {
      const params = { w: p.astype("bfloat16") };
      const optimizer = adamw(settings);
      return optimizer.update({ grads: { w: p }, params, state: optimizer.init(params), learningRate: 1 }).params;
    };
    expect(() =>
      interpret(
        low,
        floats([2, 2], () => 1),
      ),
    ).toThrow(/"w" must be float32; got bfloat16\[2,2\]/);
  });
});

describe("selectTree", () => {
  it("takes all of one tree or all of the other", async () => {
    const pick = jit((yes: Tensor, a: Params<Tensor>, b: Params<Tensor>) => selectTree(yes.gt(0), a, b));
    const [a, b] = [gradsAt(1), gradsAt(2)];
    const picked = (x: number) =>
      fetchAndFree<Params<HostArray>>(
        pick(
          floats([], () => x),
          a as never,
          b as never,
        ),
      );
    expect(valuesOf((await picked(1)).w)).toEqual(valuesOf(a.w));
    expect(valuesOf((await picked(0)).norm)).toEqual(valuesOf(b.norm));
  });
});
