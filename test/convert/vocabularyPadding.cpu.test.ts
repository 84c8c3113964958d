/** E6: rows of padding stay inside: in no loss, no gradient, no sample and no export. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { valueAndGrad } from "../../src/autodiff/index.ts";
import { openSafetensors } from "../../src/checkpoint/safetensors.ts";
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { type LlamaBatch, type LlamaParams, type LlamaTree, llamaLogits, llamaLoss } from "../../src/models/llama.ts";
import { withVocabularyRows } from "../../src/models/vocabularyRows.ts";
import { makeSampler } from "../../src/train/sample.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { byHfName, goldenLlama, llamaNames, makeBatch, maxDifference, rowsOf } from "../models/goldenLlama.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";
import { eventsOf, ofType } from "../train/runFiles.ts";
import { tinyKeys } from "../train/tinyRun.ts";
import { configOf, tensorsOf } from "./models.ts";

const base = mkdtempSync(join(tmpdir(), "halfbyte-padding-"));
beforeAll(ensureBuilt);
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** The golden models' rows from here on are padding. */
const vocabSize = 200;

it.each(llamaNames)("%s: logits, loss, gradients and samples are those of the model without padding", async (name) => {
  const { params, options, golden } = await goldenLlama(name);
  const { vocabSize: rows } = options.config;
  const narrow = { ...options, zLoss: 1e-3, config: { ...options.config, vocabSize } };
  const padded = { ...narrow, config: { ...narrow.config, paddedVocabSize: rows } };
  const cut = withVocabularyRows(params, narrow.config);
  const ids = rowsOf(golden.values("input_ids"), 32).map((row) => row.map((id) => id % vocabSize));
  const results = [];
  for (const [model, weights] of [
    [narrow, cut],
    [padded, params],
  ] as const) {
    const all = jit((params: LlamaParams, batch: LlamaBatch) => {
      const { value: loss, grad } = valueAndGrad((params: LlamaParams) => llamaLoss(params, batch, model).loss)(params);
      return { loss, grad, logits: llamaLogits(params, batch.tokens, model) };
    });
    type All = { loss: HostArray; grad: LlamaTree<HostArray>; logits: HostArray };
    results.push(await fetchAndFree<All>(all(weights as never, makeBatch(ids) as never)));
    all.dispose();
  }
  const [wanted, found] = results as [(typeof results)[0], (typeof results)[0]];
  expect(found!.logits.shape).toEqual([2, 32, vocabSize]);
  expect(maxDifference(found!.logits.data as Float32Array, wanted!.logits.data as Float32Array)).toBeLessThan(1e-6);
  expect(Math.abs(Number(found!.loss.data[0]) - Number(wanted!.loss.data[0]))).toBeLessThan(1e-6);
  const grads = byHfName(withVocabularyRows(found!.grad, narrow.config));
  for (const [tensor, grad] of byHfName(wanted!.grad)) {
    expect(maxDifference(grads.get(tensor)!, grad), tensor).toBeLessThan(1e-6);
  }
  const inPadding = (found!.grad.head ?? found!.grad.embed).data.subarray(vocabSize * options.config.embDim);
  expect(inPadding.every((value) => value === 0)).toBe(true);

  // Rows of padding that would win every choice.
  const loud = (array: HostArray) => {
    const data = Float32Array.from(array.data as Float32Array);
    for (let i = vocabSize * options.config.embDim; i < data.length; i++) data[i] = 100 * (i % 2 ? 1 : -1);
    return hostArray(array.shape, "float32", data);
  };
  const { head, embed } = params;
  const shouting = { ...params, embed: loud(embed), ...(head && { head: loud(head) }) };
  const samples = [];
  for (const [model, weights] of [
    [narrow, cut],
    [padded, shouting],
  ] as const) {
    const sampler = makeSampler({ model, length: 16 });
    samples.push(await sampler.generate({ params: weights as never, promptIds: [1, 2, 3], numTokens: 8 }));
    sampler.dispose();
  }
  expect(samples[1]).toEqual(samples[0]);
});

it("a run with padding trains as one without, and exports the tokenizer's rows alone", async () => {
  const text = join(base, "text.txt");
  writeFileSync(text, "Some words, and then some more words. ".repeat(60));
  const keys = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
  const train = async (name: string, ...more: string[]) => {
    const ran = await halfbyte([
      ...["train", ...keys, `dataset_path=${text}`, "tokenizer_path=byte", `base_output_directory=${base}`],
      ...["lr_schedule_type=constant", "steps=3", `run_name=${name}`, ...more],
    ]);
    expect(ran.exitCode, ran.stderr).toBe(0);
    return ofType(eventsOf(join(base, name)), "step").map(({ loss }) => loss as number);
  };
  const plain = await train("plain");
  const padded = await train("padded", "make_vocab_size_divisible_by=128");
  for (const [i, loss] of padded.entries()) expect(loss).toBeCloseTo(plain[i]!, 5);

  const inside = await openSafetensors(join(base, "padded/checkpoints/step-00000003/params.safetensors"));
  const dims = inside.tensors.get("model.embed_tokens.weight")!.shape;
  expect(dims[0]).toBe(384);
  const output = join(base, "exported");
  const { exitCode, stderr } = await halfbyte(["convert", join(base, "padded"), `output=${output}`, "verify=true"]);
  expect(exitCode, stderr).toBe(0);
  expect(configOf(output)).toMatchObject({ vocab_size: 257, eos_token_id: 256 });
  const tensors = await tensorsOf(output);
  for (const name of ["model.embed_tokens.weight", "lm_head.weight"]) {
    const { data } = await inside.read(name);
    expect(tensors.get(name)!.shape).toEqual([257, dims[1]]);
    expect(tensors.get(name)!.data).toEqual(data.slice(0, 257 * dims[1]!));
  }
  await inside.close();
  expect(existsSync(join(output, "tokenizer.json"))).toBe(true);

  // In again, under padding of another multiple, and of none.
  const again = await train("again", "make_vocab_size_divisible_by=100", `load_parameters_path=${output}`);
  const whole = await train("whole", `load_parameters_path=${join(base, "padded")}`);
  expect(again[0]).toBeCloseTo(whole[0]!, 5);
  expect(again[0]).toBeLessThan(plain[0]!);
});
