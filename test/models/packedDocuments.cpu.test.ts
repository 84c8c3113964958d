/** B11: documents packed into a sequence are to the model what each of them is alone. */
import { afterAll, describe, expect, it } from "vitest";
import { valueAndGrad } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import {
  type LlamaBatch,
  type LlamaOptions,
  type LlamaParams,
  type LlamaTree,
  llamaLogits,
  llamaLoss,
} from "../../src/models/llama.ts";
import { type RematPolicyName, rematPolicies } from "../../src/models/rematPolicies.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { type Batch, byHfName, goldenLlama, makeBatch, maxDifference, relativeNorm, scalarOf } from "./goldenLlama.ts";

const { params, options } = await goldenLlama("llama_a_untied_llama3rope");
const vocabulary = options.config.vocabSize;

const ids = (length: number, seed: number): number[] =>
  Array.from({ length }, (_, i) => (seed * 7919 + i * i * 31 + i) % vocabulary);
const [first, second] = [ids(13, 1), ids(17, 2)];

type Packed = Batch & { readonly segments: HostArray };

/** Documents side by side, each predicting its own next tokens, then padding. */
function pack(documents: readonly (readonly number[])[], width: number): Packed {
  const row = documents.flat();
  const padding = Array<number>(width - row.length).fill(-100);
  // A document's first token is no target of the one before it.
  const labels = [...documents.flatMap((ids) => [-100, ...ids.slice(1)]), ...padding];
  const batch = makeBatch([[...row, ...padding.map(() => 7)]], [labels]);
  const segments = [...documents.flatMap((ids, i) => ids.map(() => i + 1)), ...padding.map(() => 0)];
  return { ...batch, segments: hostArray([1, width], "int32", Int32Array.from(segments)) };
}

const disposed: { dispose(): void }[] = [];
afterAll(() => {
  for (const one of disposed) one.dispose();
});

function compiled(changes: Partial<LlamaOptions> = {}) {
  const model = { ...options, ...changes };
  const logits = jit((params: LlamaParams, { tokens, segments }: Pick<LlamaBatch, "tokens" | "segments">) =>
    llamaLogits(params, tokens, { ...model, ...(segments && { segments }) }),
  );
  const sums = jit((params: LlamaParams, batch: LlamaBatch) => {
    const { value, grad } = valueAndGrad((p: LlamaParams) => llamaLoss(p, batch, model).lossSum)(params);
    return { loss: value, grad };
  });
  disposed.push(logits, sums);
  return {
    logits: async ({ tokens, segments }: Batch & { segments?: HostArray }) => {
      const result = logits(params as never, { tokens, ...(segments && { segments }) } as never);
      return (await fetchAndFree(result)).data as Float32Array;
    },
    sums: (batch: Batch) =>
      fetchAndFree<{ loss: HostArray; grad: LlamaTree<HostArray> }>(sums(params as never, batch as never)),
  };
}

const plain = compiled();
const width = 40;
const logitsAt = (data: Float32Array, from: number, to: number) => data.slice(from * vocabulary, to * vocabulary);

describe("B11: two packed documents", () => {
  it("other tokens in the first change no bit of the second's logits, nor does the padding", async () => {
    const changed = first.map((id) => (id + 1) % vocabulary);
    const [a, b] = [
      await plain.logits(pack([first, second], width)),
      await plain.logits(pack([changed, second], width)),
    ];
    expect(logitsAt(b, 13, 30)).toEqual(logitsAt(a, 13, 30));
    expect(logitsAt(b, 0, 13)).not.toEqual(logitsAt(a, 0, 13));
    // Without segments they do: the trial would notice.
    const { segments: _, ...crossing } = pack([first, second], width);
    const { segments: __, ...other } = pack([changed, second], width);
    const [c, d] = [await plain.logits(crossing), await plain.logits(other)];
    expect(maxDifference(logitsAt(d, 13, 30), logitsAt(c, 13, 30))).toBeGreaterThan(0.01);
  });

  it("each has the logits that it has alone: positions restart at 0", async () => {
    const packed = await plain.logits(pack([first, second], width));
    const alone = [await plain.logits(makeBatch([first])), await plain.logits(makeBatch([second]))];
    expect(maxDifference(logitsAt(packed, 0, 13), alone[0]!)).toBeLessThan(2e-5);
    expect(maxDifference(logitsAt(packed, 13, 30), alone[1]!)).toBeLessThan(2e-5);
  });

  it.each([
    ["none", false],
    ["full", false],
    ["minimal_with_context", true],
  ] as readonly (readonly [RematPolicyName, boolean])[])(
    "their loss and gradients are the sums of those alone, with remat_policy=%s, scan_layers=%s",
    async (policy, scanLayers) => {
      const remat = rematPolicies[policy];
      const { sums } = compiled({ scanLayers, ...(remat && { remat }) });
      const packed = await sums(pack([first, second], width));
      const [a, b] = [await plain.sums(makeBatch([first])), await plain.sums(makeBatch([second]))];
      expect(Math.abs(scalarOf(packed.loss) / (scalarOf(a.loss) + scalarOf(b.loss)) - 1)).toBeLessThan(1e-6);
      const [ga, gb] = [byHfName(a.grad), byHfName(b.grad)];
      for (const [name, gradient] of byHfName(packed.grad)) {
        const sum = ga.get(name)!.map((x, i) => x + gb.get(name)![i]!);
        expect(relativeNorm(gradient, sum), name).toBeLessThan(5e-6);
      }
    },
  );
});
