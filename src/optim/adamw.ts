/** AdamW (Kingma & Ba 2015; decoupled weight decay by Loshchilov & Hutter 2019) as pure functions on trees. */
import { ShapeError, UserError } from "../base/errors.ts";
import { full, showSpec, type Tensor, treeMap, where, zeros } from "../core/index.ts";

/** AdamW's constants, and which parameters decay. */
export interface AdamWSettings {
  readonly b1: number;
  readonly b2: number;
  /** Added to the root of the second moment. */
  readonly eps: number;
  /** A decayed parameter loses this fraction of itself, times the learning rate, in each step. */
  readonly weightDecay: number;
  /** Which parameters decay. The default is those of two dims and more: no norm weights, no biases. */
  readonly decay?: (path: string, parameter: Tensor) => boolean;
}

/** Moments in float32, in the tree of the parameters. */
export interface AdamWState<P> {
  /** Updates made so far, int32 scalar. Skipped steps do not count. */
  readonly count: Tensor;
  readonly mu: P;
  readonly nu: P;
}

/** What an update reads. */
export interface AdamWUpdate<P> {
  /** Float32, in the tree of the parameters. */
  readonly grads: P;
  readonly state: AdamWState<P>;
  readonly params: P;
  /** Float32 scalar, or a number. */
  readonly learningRate: Tensor | number;
  /** Bool scalar; where it is false the gradient is not looked at and every bit of state and parameters stays. */
  readonly finite?: Tensor;
}

/** The optimizer as two pure functions. */
export interface AdamW {
  /** Zero moments of the parameters' shapes. */
  init<P>(params: P): AdamWState<P>;
  /** One step. @throws ShapeError where a parameter is not float32, UserError where the trees differ */
  update<P>(update: AdamWUpdate<P>): { params: P; state: AdamWState<P> };
}

const matricesOnly = (_: string, parameter: Tensor): boolean => parameter.rank > 1;

/** @throws UserError on settings outside their ranges */
export function adamw({ b1, b2, eps, weightDecay, decay = matricesOnly }: AdamWSettings): AdamW {
  checkSettings({ b1, b2, eps, weightDecay });

  function init<P>(params: P): AdamWState<P> {
    const moments = () => treeMap<P>((p: Tensor) => zeros(p.shape, "float32"), params);
    return { count: zeros([], "int32"), mu: moments(), nu: moments() };
  }

  function update<P>({ grads, state, params, learningRate, finite }: AdamWUpdate<P>) {
    // A step that is not finite leaves the moments by a scalar route, mu · 1 + (−0) · 0 and nu · 1 + 0 · 0, which changes
    // no bit. Selecting between the old and the new arrays would be plainer, but XLA's CPU compiler then no longer
    // updates donated moments in place (measured: a copy of every one).
    const orNeutral = (value: number, neutral: number) => {
      const usual = full([], value, "float32");
      return finite === undefined ? usual : where(finite, usual, neutral);
    };
    const [keep1, keep2, add1, add2] = [orNeutral(b1, 1), orNeutral(b2, 1), orNeutral(1 - b1, 0), orNeutral(1 - b2, 0)];
    const known = <T extends Tensor>(g: T) => (finite === undefined ? g : where(finite, g, -0));

    const count = state.count.add(1);
    const unbias1 = biasCorrection(b1, count);
    const unbias2 = biasCorrection(b2, count).sqrt();

    const mu = treeMap<P>((m: Tensor, g: Tensor) => m.mul(keep1).add(known(g).mul(add1)), state.mu, grads);
    const nu = treeMap<P>(
      (v: Tensor, g: Tensor) => v.mul(keep2).add(known(g).mul(known(g)).mul(add2)),
      state.nu,
      grads,
    );
    const next = treeMap<P>(
      (p: Tensor, m: Tensor, v: Tensor, path: string) => {
        if (p.dtype !== "float32")
          throw new ShapeError(`adamw: parameter "${path}" must be float32; got ${showSpec(p)}`);
        const direction = m.mul(unbias1).div(v.sqrt().mul(unbias2).add(eps));
        const step = weightDecay !== 0 && decay(path, p) ? direction.add(p.mul(weightDecay)) : direction;
        const moved = p.sub(step.mul(learningRate));
        return finite === undefined ? moved : where(finite, moved, p);
      },
      params,
      mu,
      nu,
    );
    const counted = finite === undefined ? count : where(finite, count, state.count);
    return { params: next, state: { count: counted, mu, nu } };
  }

  return { init, update };
}

/** 1 / (1 − b^count), float32; by expm1 because 1 − b^count loses digits where b is near 1. */
function biasCorrection(b: number, count: Tensor): Tensor {
  if (b === 0) return full([], 1, "float32");
  const missing = count.astype("float32").mul(Math.log(b)).expm1().neg();
  return full([], 1, "float32").div(missing);
}

function checkSettings({ b1, b2, eps, weightDecay }: Record<"b1" | "b2" | "eps" | "weightDecay", number>): void {
  const check = (name: string, value: number, ok: boolean, rule: string) => {
    if (!ok) throw new UserError("E_OPTIMIZER", `adamw: ${name} must be ${rule}; got ${value}`);
  };
  check("b1", b1, b1 >= 0 && b1 < 1, "in [0, 1)");
  check("b2", b2, b2 >= 0 && b2 < 1, "in [0, 1)");
  check("eps", eps, eps > 0 && Number.isFinite(eps), "a positive number");
  check("weight decay", weightDecay, weightDecay >= 0 && Number.isFinite(weightDecay), "0 or a positive number");
}
