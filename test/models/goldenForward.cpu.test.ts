import { afterAll, describe, expect, it } from "vitest";
import { valueAndGrad } from "../../src/autodiff/index.ts";
import { type HostArray, interpret, type Tensor } from "../../src/core/index.ts";
import { type Compiled, jit } from "../../src/jit/index.ts";
import {
  type LlamaBatch,
  type LlamaOptions,
  type LlamaParams,
  type LlamaTree,
  llamaLogits,
  llamaLoss,
  llamaStates,
} from "../../src/models/llama.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import {
  byHfName,
  goldenLlama,
  type LlamaName,
  llamaNames,
  makeBatch,
  maxDifference,
  relativeNorm,
  rowsOf,
  scalarOf,
} from "./goldenLlama.ts";

const reached: string[] = [];
const report = (what: string, value: number) => reached.push(`${what} ${value.toExponential(1)}`);
afterAll(() => {
  if (process.env.HALFBYTE_TEST_VERBOSE) console.log(reached.join("\n"));
});

/** Loss with its gradient, and the states and logits of one batch. */
const everything = (options: LlamaOptions) => (params: LlamaParams, batch: LlamaBatch) => {
  const differentiate = valueAndGrad(
    (params: LlamaParams) => {
      const { loss, totalWeight } = llamaLoss(params, batch, options);
      return { value: loss, aux: { totalWeight } };
    },
    { aux: true },
  );
  const { value: loss, grad, aux } = differentiate(params);
  return {
    loss,
    grad,
    totalWeight: aux.totalWeight,
    logits: llamaLogits(params, batch.tokens, options),
    states: llamaStates(params, batch.tokens, options),
  };
};

interface Everything {
  loss: HostArray;
  totalWeight: HostArray;
  grad: LlamaTree<HostArray>;
  logits: HostArray;
  states: HostArray[];
}

const programs = new Map<LlamaName, Compiled<[LlamaParams, LlamaBatch], unknown>>();

async function run(name: LlamaName, labels: "input_ids" | "masked_labels"): Promise<Everything> {
  const { params, options, golden } = await goldenLlama(name);
  const program = programs.get(name) ?? (jit(everything(options)) as Compiled<[LlamaParams, LlamaBatch], unknown>);
  programs.set(name, program);
  const batch = makeBatch(rowsOf(golden.values("input_ids"), 32), rowsOf(golden.values(labels), 32));
  return fetchAndFree<Everything>(program(params as never, batch as never));
}

describe.each(llamaNames)("golden %s in float32", (name) => {
  it("logits and hidden states", async () => {
    const { golden, options } = await goldenLlama(name);
    const { logits, states } = await run(name, "input_ids");
    const error = maxDifference(logits.data as Float32Array, golden.values("logits"));
    report(`${name} logits`, error);
    expect(error).toBeLessThan(1e-4);
    if (!golden.has("hidden.0")) return;
    // The golden's last state is the normalised one; ours lists the last block's output before it.
    const { numLayers } = options.config;
    for (let i = 0; i <= numLayers; i++) {
      const state = states[i === numLayers ? numLayers + 1 : i]!;
      const difference = maxDifference(state.data as Float32Array, golden.values(`hidden.${i}`));
      report(`${name} hidden.${i}`, difference);
      expect(difference, `hidden.${i}`).toBeLessThan(1e-4);
    }
  });

  it("loss and every gradient", async () => {
    const { golden } = await goldenLlama(name);
    const { loss, grad, totalWeight } = await run(name, "input_ids");
    report(`${name} loss`, Math.abs(scalarOf(loss) - golden.scalar("loss")));
    expect(Math.abs(scalarOf(loss) - golden.scalar("loss"))).toBeLessThan(1e-5);
    expect(scalarOf(totalWeight)).toBe(2 * 31);
    const gradients = byHfName(grad);
    const wanted = golden.names.filter((n) => n.startsWith("grad."));
    expect(wanted.map((n) => n.slice("grad.".length)).sort()).toEqual([...gradients.keys()].sort());
    const errors = wanted.map((n) => relativeNorm(gradients.get(n.slice("grad.".length))!, golden.values(n)));
    report(`${name} gradients`, Math.max(...errors));
    wanted.forEach((n, i) => {
      expect(errors[i], n).toBeLessThan(1e-4);
    });
  });

  it("masked loss", async () => {
    const { golden } = await goldenLlama(name);
    const { loss } = await run(name, "masked_labels");
    report(`${name} masked loss`, Math.abs(scalarOf(loss) - golden.scalar("masked_loss")));
    expect(Math.abs(scalarOf(loss) - golden.scalar("masked_loss"))).toBeLessThan(1e-5);
  });
});

describe("interpreted", () => {
  it("the small Llama gives the golden's loss and gradients too", async () => {
    const { params, options, golden } = await goldenLlama("llama_b_tied_plainrope");
    const batch = makeBatch(rowsOf(golden.values("input_ids"), 32));
    const f = (params: LlamaParams, batch: LlamaBatch) =>
      valueAndGrad((p: LlamaParams): Tensor => llamaLoss(p, batch, options).loss)(params);
    const { value, grad } = interpret(f, params as never, batch as never) as unknown as {
      value: HostArray;
      grad: LlamaTree<HostArray>;
    };
    expect(Math.abs(scalarOf(value) - golden.scalar("loss"))).toBeLessThan(1e-5);
    for (const [parameter, gradient] of byHfName(grad)) {
      expect(relativeNorm(gradient, golden.values(`grad.${parameter}`)), parameter).toBeLessThan(1e-4);
    }
  });
});
