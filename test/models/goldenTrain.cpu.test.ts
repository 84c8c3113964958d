/** Five steps of training as the golden files have them: clip 1.0, AdamW with decay on every parameter, rate 1e-3. */
import { describe, expect, it } from "vitest";
import { valueAndGrad } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import { disposeTree, fetchTree, jit, putTree } from "../../src/jit/index.ts";
import { type LlamaBatch, type LlamaParams, type LlamaTree, llamaLoss } from "../../src/models/llama.ts";
import { type AdamWState, adamw, clipByGlobalNorm } from "../../src/optim/index.ts";
import type { DeviceArray } from "../../src/pjrt/index.ts";
import { golden, goldenJson } from "../golden.ts";
import { byHfName, goldenLlama, llamaNames, makeBatch, rowsOf, scalarOf } from "./goldenLlama.ts";

interface State {
  params: LlamaParams;
  adam: AdamWState<LlamaParams>;
}

interface Recorded {
  losses_before_each_step: number[];
  grad_norms_before_clipping: number[];
  losses_after_training_on_each_batch: number[];
}

const optimizer = adamw({ b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1, decay: () => true });

/**
 * Adam's first step moves an element by g / (|g| + ε), whatever its size: where g itself is smaller than the rounding of
 * the sums it comes from, its sign and so the step are chance, in any float32 implementation. Gradients agree with the
 * golden ones to about 1e-6 of a tensor's rms; below 1e-4 of it an element is left out. (An exact 0 is no noise.)
 */
function noiseLevel(gradient: Float32Array): number {
  return (1e-4 * Math.hypot(...gradient)) / Math.sqrt(gradient.length);
}

describe.each(llamaNames)("golden %s", (name) => {
  it("five steps of AdamW: losses, norms, final parameters", async () => {
    const { params, options } = await goldenLlama(name);
    const train = await golden(`06_models/${name}/train`);
    const recorded = goldenJson<Recorded>(`06_models/${name}/train`);
    const ids = rowsOf(train.values("batches"), 32);
    const batches = [0, 1, 2, 3, 4].map((i) => makeBatch(ids.slice(2 * i, 2 * i + 2)));

    const step = jit(
      ({ params, adam }: State, batch: LlamaBatch, learningRate: Tensor) => {
        const { value: loss, grad } = valueAndGrad((p: LlamaParams) => llamaLoss(p, batch, options).loss)(params);
        const { grads, norm, finite } = clipByGlobalNorm(grad, 1);
        const next = optimizer.update({ grads, state: adam, params, learningRate, finite });
        return { state: { params: next.params, adam: next.state }, loss, norm, grad };
      },
      { donate: [0] },
    );
    const onDevice = await putTree(params);
    const begin = jit((params: LlamaParams) => optimizer.init(params));
    let state = { params: onDevice, adam: await begin(onDevice as never) } as never;
    const rate = hostArray([], "float32", Float32Array.of(1e-3));
    const lossOnly = jit((params: LlamaParams, batch: LlamaBatch) => llamaLoss(params, batch, options).loss);
    const number = async (array: unknown) => {
      const value = scalarOf(await (array as DeviceArray).toHost());
      (array as DeviceArray).dispose();
      return value;
    };

    let firstGradient = new Map<string, Float32Array>();
    for (const [i, batch] of batches.entries()) {
      const result = await step(state, batch as never, rate);
      state = result.state as never;
      if (i === 0) firstGradient = byHfName((await fetchTree(result.grad)) as unknown as LlamaTree<HostArray>);
      disposeTree(result.grad);
      expect(Math.abs((await number(result.loss)) - recorded.losses_before_each_step[i]!)).toBeLessThan(1e-5);
      expect(Math.abs((await number(result.norm)) / recorded.grad_norms_before_clipping[i]! - 1)).toBeLessThan(1e-5);
    }
    const { params: trained } = state as { params: unknown };
    for (const [i, batch] of batches.entries()) {
      const after = await number(await lossOnly(trained as never, batch as never));
      expect(Math.abs(after - recorded.losses_after_training_on_each_batch[i]!)).toBeLessThan(1e-4);
    }
    const final = byHfName((await fetchTree(trained)) as unknown as LlamaTree<HostArray>);
    disposeTree(state);
    const names = train.names.filter((n) => n.startsWith("final."));
    expect(names.length).toBeGreaterThan(10);
    let worst = 0;
    let numNoise = 0;
    for (const n of names) {
      const parameter = n.slice("final.".length);
      const [got, wanted, gradient] = [final.get(parameter)!, train.values(n), firstGradient.get(parameter)!];
      const noise = noiseLevel(gradient);
      got.forEach((x, j) => {
        const difference = Math.abs(x - wanted[j]!);
        const isNoise = gradient[j] !== 0 && Math.abs(gradient[j]!) < noise;
        if (!(difference < (isNoise ? 1e-3 : 2e-5))) expect.fail(`${n}[${j}]: ${x}, golden ${wanted[j]}`);
        if (isNoise) numNoise++;
        else worst = Math.max(worst, difference);
      });
    }
    expect(numNoise).toBeLessThan(50);
    if (process.env.HALFBYTE_TEST_VERBOSE)
      console.log(`${name} final parameters ${worst.toExponential(1)}, ${numNoise} left out`);
  });
});
