/** The parts of a training step as functions of their own, forward and backward, at a workload's sizes. */
import { vjp } from "../src/autodiff/index.ts";
import { full, type HostArray, hostArray, type Tensor, treeMap } from "../src/core/index.ts";
import type { LlamaTree } from "../src/models/llama.ts";
import {
  type AttentionTiles,
  causalAttention,
  crossEntropy,
  rmsNorm,
  rope,
  ropeTables,
  swiglu,
} from "../src/nn/index.ts";
import { type AdamWState, adamw, clipByGlobalNorm } from "../src/optim/index.ts";
import { linear, recipeByName } from "../src/quant/index.ts";
import { initialParameters } from "../src/train/state.ts";
import { adamSettings, tokenIds, trainingStep } from "./trainingStep.ts";
import { configOf, type Sizes } from "./workload.ts";

export interface StepPart {
  readonly f: (...args: never[]) => unknown;
  /** Trees of host arrays. */
  readonly args: readonly unknown[];
  /** The first argument is donated, and `state` of the result is the next one. */
  readonly keepsState?: boolean;
}

/** A function and its pullback: (cotangent, ...arguments) → result and cotangents of all arguments. */
export const withGradient =
  (f: (...args: Tensor[]) => Tensor) =>
  (ct: Tensor, ...args: Tensor[]) => {
    const { out, pullback } = vjp(f, ...args);
    return { out, cotangents: pullback(ct) };
  };

const sizeOf = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);

/** Ordinary values in −0.5 … 0.5. */
export function randomValues(size: number): Float32Array {
  let state = 7;
  return Float32Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  });
}

export const f32 = (...shape: number[]): HostArray => hostArray(shape, "float32", randomValues(sizeOf(shape)));
/** The upper halves of float32 bits. */
export const bf16 = (...shape: number[]): HostArray =>
  hostArray(
    shape,
    "bfloat16",
    new Uint16Array(randomValues(sizeOf(shape)).buffer).filter((_, i) => i % 2 === 1),
  );

const plain = { rematPolicy: "none", scanLayers: false, packedResiduals: false } as const;

/** By name; each is made when it is asked for. M = batch · seq tokens, D model, F MLP, V vocabulary. */
export const stepParts = {
  step: (w: Sizes) => wholeStep(w, { recipe: "bf16" }),
  "step-nvfp4": (w: Sizes) => wholeStep(w, { recipe: "nvfp4", policy: "mlp_only" }),
  attention({ batch, seq, hidden, heads, kv }: Sizes, tiles?: AttentionTiles) {
    const [q, k] = [bf16(batch, seq, heads, hidden / heads), bf16(batch, seq, kv, hidden / heads)];
    return { f: withGradient((q, k, v) => causalAttention({ q: q!, k: k!, v: v! }, tiles)), args: [q, q, k, k] };
  },
  mlp({ batch, seq, hidden, ffn }: Sizes) {
    const precision = recipeByName("bf16").precision;
    const mlp = (x: Tensor, gate: Tensor, up: Tensor, down: Tensor) => {
      const project = (module: string, x: Tensor, w: Tensor) => linear(x, w, { module, layer: 0, precision });
      return project("mlp.down", swiglu(project("mlp.gate", x, gate), project("mlp.up", x, up)), down);
    };
    const [x, into, out] = [bf16(batch * seq, hidden), f32(ffn, hidden), f32(hidden, ffn)];
    return { f: withGradient(mlp as (...args: Tensor[]) => Tensor), args: [x, x, into, into, out] };
  },
  loss({ batch, seq, hidden, vocab }: Sizes) {
    const f = (hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) => {
      const sum = (hidden: Tensor, head: Tensor) => crossEntropy({ hidden, head, targets, weights }).lossSum;
      const { out, pullback } = vjp(sum, hidden, head);
      return { out, cotangents: pullback(full([], 1, "float32")) };
    };
    const M = batch * seq;
    const targets = { ...tokenIds({ batch: 1, seq: M, vocab }, 1), shape: [M] };
    return { f, args: [bf16(M, hidden), f32(vocab, hidden), targets, f32(M)] };
  },
  norm({ batch, seq, hidden }: Sizes) {
    const x = bf16(batch * seq, hidden);
    return { f: withGradient((x, w) => rmsNorm(x!, w!, 1e-5)), args: [x, x, f32(hidden)] };
  },
  swiglu({ batch, seq, ffn }: Sizes) {
    const x = bf16(batch * seq, ffn);
    return { f: withGradient((gate, up) => swiglu(gate!, up!)), args: [x, x, x] };
  },
  rope({ batch, seq, hidden, heads }: Sizes) {
    const [headDim, x] = [hidden / heads, bf16(batch, seq, heads, hidden / heads)];
    return { f: withGradient((x) => rope(x!, ropeTables(seq, { headDim, theta: 1e4 }))), args: [x, x] };
  },
  /** Of the embedding, the head and at most two blocks. */
  optimizer(w: Sizes) {
    type Params = LlamaTree<Tensor>;
    interface State {
      readonly params: Params;
      readonly moments: AdamWState<Params>;
    }
    const f = ({ params, moments }: State, grads: Params) => {
      const clipped = clipByGlobalNorm(grads, 1);
      const { finite } = clipped;
      const update = { grads: clipped.grads, state: moments, params, learningRate: 1e-3, finite };
      const next = adamw(adamSettings).update(update);
      return { state: { params: next.params, moments: next.state }, norm: clipped.norm };
    };
    const params = initialParameters(configOf({ ...w, layers: Math.min(2, w.layers) }), 0);
    const zero = treeMap((x: HostArray) => ({ ...x, data: new Float32Array(x.data.length) }), params as never);
    const moments = { count: hostArray([], "int32", Int32Array.of(0)), mu: zero, nu: zero };
    return { f, args: [{ params, moments }, params], keepsState: true };
  },
} satisfies Readonly<Record<string, (w: Sizes) => StepPart>>;

export type PartName = keyof typeof stepParts;

function wholeStep(w: Sizes, choice: { readonly recipe: string; readonly policy?: "mlp_only" }): StepPart {
  const { train, state, batch, scalars } = trainingStep(w, { ...plain, ...choice });
  return { f: train, args: [state, batch, scalars(1)], keepsState: true };
}
