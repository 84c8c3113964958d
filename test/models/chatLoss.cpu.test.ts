/** Training on what the assistant says: the losses of golden set 16, from conversation to loss. */
import { afterAll, describe, expect, it } from "vitest";
import type { HostArray } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { type LlamaBatch, type LlamaParams, llamaLoss } from "../../src/models/llama.ts";
import { type ChatMessage, chatExample, compileChatTemplate, loadTokenizer } from "../../src/tokenizers/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { goldenJson } from "../golden.ts";
import { goldenLlama, makeBatch, scalarOf } from "./goldenLlama.ts";

const golden = goldenJson<{
  readonly templates: Readonly<Record<string, string>>;
  readonly conversations: readonly (readonly ChatMessage[])[];
  readonly masked_loss: readonly {
    readonly conversation: number;
    readonly template: string;
    readonly scored_tokens: number;
    readonly loss_float64: number;
  }[];
}>("16_chat/golden");
const { params, options } = await goldenLlama("llama_a_untied_llama3rope");
const lossOf = jit((params: LlamaParams, batch: LlamaBatch) => llamaLoss(params, batch, options));
afterAll(() => lossOf.dispose());

describe("golden 16", () => {
  it.each(golden.masked_loss)(
    "loss of conversation $conversation, over the assistant's tokens alone",
    async (wanted) => {
      const template = compileChatTemplate(golden.templates[wanted.template]!);
      const { ids, mask } = chatExample(template, loadTokenizer("byte"), golden.conversations[wanted.conversation]!);
      const labels = Array.from(ids, (id, i) => (mask[i] === 1 ? id : -100));
      const batch = makeBatch([[...ids]], [labels]);
      const { loss, totalWeight } = await fetchAndFree<{ loss: HostArray; totalWeight: HostArray }>(
        lossOf(params as never, batch as never),
      );
      expect(scalarOf(totalWeight)).toBe(wanted.scored_tokens);
      expect(Math.abs(scalarOf(loss) / wanted.loss_float64 - 1)).toBeLessThan(1e-6);
    },
  );
});
