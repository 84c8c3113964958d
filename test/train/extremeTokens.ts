/** A model of one block in which some tokens make large activations and others small ones, for tests of delayed scales. */
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { llamaDelayedScaling, llamaModules } from "../../src/models/llama.ts";
import { type DelayedScalingState, linearTensors } from "../../src/quant/index.ts";
import { initialState } from "../../src/train/state.ts";
import { stepOptions } from "../../src/train/step.ts";
import { tinyModel, tinyPlan } from "./tinyRun.ts";

const options = stepOptions(tinyPlan({}, "fp8_delayed_scaling"));

/** The newest magnitudes of x, W and dy of a linear layer. */
export function recorded({ history }: DelayedScalingState<HostArray>, layer: number, module: string): number[] {
  const site = layer * llamaModules.length + llamaModules.indexOf(module as never);
  const L = history.shape.at(-1)!;
  return linearTensors.map((_, i) => Number(history.data[(3 * site + i + 1) * L - 1]));
}

function makeExtremes() {
  const model = { ...tinyModel, numLayers: 1, normEps: 1 };
  const delayedScaling = llamaDelayedScaling({ ...options, config: model })!;
  const state = initialState(model, 0, { delayedScaling });
  const embed = state.params.embed.data as Float32Array;
  const D = model.embDim;
  // RMS norm of one large number among D is √D; with an eps of 1, of a small one it is that number.
  embed.fill(0, D, 3 * D);
  embed[D] = 1e4;
  embed[2 * D] = Math.sqrt(D) / 100;
  (state.params.layers[0]!.attnNorm.data as Float32Array).fill(100 / Math.sqrt(D));
  const rows = (tokens: readonly number[]) => {
    const ids = Int32Array.from(tokens.flatMap((token) => Array(32).fill(token)));
    const array = hostArray([tokens.length, 32], "int32", ids);
    return { tokens: array, targets: array };
  };
  return { model, state, rows };
}

/** Rows of token 1 make attn.q of the block read 100, rows of token 2 make it read 1. */
export const extremes = makeExtremes();
