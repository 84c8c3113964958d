/** `halfbyte evaluate`: a model's loss on text, whatever form the model is in. */
import { UserError } from "../base/errors.ts";
import { sizesSet } from "../checkpoint/modelSizes.ts";
import { type Config, llamaConfig, type PartialSettings, resolve } from "../config/index.ts";
import { openSource, readParameters } from "../convert/index.ts";
import { openEvaluation } from "../data/index.ts";
import { disposeTree, putTree } from "../jit/index.ts";
import type { LlamaConfig } from "../models/llama.ts";
import { withVocabularyRows } from "../models/vocabularyRows.ts";
import { configureDefaultClient, type DeviceArray } from "../pjrt/index.ts";
import { loadTokenizer } from "../tokenizers/index.ts";
import { type Evaluation, makeEvaluator } from "../train/evaluate.ts";
import type { ModelState } from "../train/modelState.ts";
import { forwardOptions } from "../train/step.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { evaluationSettings } from "./evaluationSettings.ts";
import { withRecipeFile } from "./settingsFile.ts";
import { planOf, precisionName } from "./trainingRun.ts";

export const command: Command = {
  help: `Usage: halfbyte evaluate MODEL eval_dataset_path=TEXT [key=value …] [--json]

Tells the mean loss of a model over every token of a text, its perplexity, and the bits it needs for a byte of it. Documents are read
as in training: each ends with the end token, and windows follow each other without overlap.

  MODEL                 a Hugging Face folder, a GGUF file, a run's folder (its newest whole checkpoint) or a checkpoint
  eval_dataset_path     the text: a file, a folder or a pattern, of all that training reads; of PATH;PATH each one's loss too
  dataset_type          what it holds: text (default), completion, chat, tokens or megatron; of prompts and chats the loss
                        is the answers'
  max_target_length     tokens of a window: 512, or as many as the model was made for, unless you say otherwise; no more
                        than the text has
  per_device_batch_size windows at a time (1)
  eval_steps            batches to take; default all
  dtype                 what it computes in: float32 (default), bfloat16 or float16
  quantization          nvfp4, … : what low precision would do to the loss; dtype is then bfloat16
  tokenizer_path        another tokenizer than the model's own
  packing, reset_attention_mask, max_segments_per_seq, train_data_columns, dataset_bad_records, dataset_token_dtype,
  precision_policy, first_layers_bf16, last_layers_bf16, precision_overrides, rounding_seed, native_kernels and the
  switches of recipes   as in training. A key of the model's sizes may only repeat them; any other is refused
  --json                the result as one JSON object on standard output

Example: halfbyte evaluate SmolLM2-135M eval_dataset_path=book.txt
         halfbyte evaluate SmolLM2-135M eval_dataset_path=book.txt quantization=nvfp4
         halfbyte evaluate SmolLM2-135M eval_dataset_path=chats.jsonl dataset_type=chat
`,
  async run(args) {
    const { settings, flags, words } = parseArguments(args, { maxWords: 1 });
    const [path] = words;
    if (path === undefined) {
      throw new UserError("E_ARGUMENT", "the model is missing; usage: halfbyte evaluate MODEL eval_dataset_path=TEXT");
    }
    if (!settings.eval_dataset_path) {
      throw new UserError("E_KEY", "eval_dataset_path=… is missing; `halfbyte evaluate --help` shows an example");
    }
    const { config, ...result } = await evaluate(path, withRecipeFile(settings));
    const facts = { model: path, precision: precisionName(config), ...result };
    const text = flags.has("json") ? `${JSON.stringify(facts)}\n` : shown(facts);
    await new Promise((done) => process.stdout.write(text, done));
    return 0;
  },
};

interface Found extends Evaluation {
  readonly documents: number;
  readonly perplexity: number;
}

async function evaluate(path: string, given: Readonly<Record<string, unknown>>): Promise<Found & { config: Config }> {
  const source = await openSource(path);
  try {
    const { config: model, maxPositions } = source.config;
    const own = evaluationSettings(given, { path, model });
    const tokenizerPath = own.tokenizer_path ?? source.tokenizerPath;
    if (tokenizerPath === undefined) {
      throw new UserError("E_TOKENIZER", `${path} has no tokenizer: set tokenizer_path`);
    }
    const config = resolve(
      settingsOf(model, maxPositions, own),
      { ...own, tokenizer_path: tokenizerPath },
      { draft: true },
    );
    const tokenizer = loadTokenizer(config.data.tokenizerPath);
    if (tokenizer.vocabSize > model.vocabSize) {
      const fix = own.tokenizer_path !== undefined && source.tokenizerPath !== undefined;
      throw new UserError(
        "E_VOCAB_SIZE",
        `the tokenizer ${config.data.tokenizerPath} has ${tokenizer.vocabSize} tokens, and the model ${path} rows for ${model.vocabSize}: it is another model's${fix ? "; leave out tokenizer_path to take the model's own" : ""}`,
      );
    }
    const { batches, size, close } = await openEvaluation(config.data, { tokenizer, vocabSize: model.vocabSize });
    const { evalSteps } = config.run;
    const params = withVocabularyRows(await readParameters(source), llamaConfig(config));
    configureDefaultClient({ nativeKernels: config.compute.nativeKernels });
    const plan = planOf(config);
    const evaluator = makeEvaluator(forwardOptions(plan, plan.precision));
    const state: ModelState<DeviceArray> = await putTree({ params });
    try {
      const result = await evaluator.evaluate(state, batches, evalSteps === -1 ? {} : { maxBatches: evalSteps });
      return { ...result, perplexity: Math.exp(result.loss), documents: size.documents, config };
    } finally {
      disposeTree(state);
      evaluator.dispose();
      close();
    }
  } finally {
    await source.close();
  }
}

/** The settings that the model and this command stand for, below the user's. */
function settingsOf(
  model: LlamaConfig,
  maxPositions: number,
  { quantization = "none" }: PartialSettings,
): PartialSettings {
  return {
    ...(sizesSet(model) as PartialSettings),
    per_device_batch_size: 1,
    max_target_length: Math.min(512, maxPositions),
    dtype: quantization === "none" ? "float32" : "bfloat16",
  };
}

function shown({
  model,
  precision,
  loss,
  perplexity,
  bitsPerByte,
  validTokens,
  documents,
  seconds,
  sources = [],
}: Found & { model: string; precision: string }): string {
  const of = documents === 1 ? "one document" : `${documents} documents`;
  return [
    `${model} in ${precision}: loss ${loss.toFixed(4)} nats a token, perplexity ${perplexity.toFixed(2)}, ${bitsPerByte.toFixed(3)} bits a byte`,
    `  over ${validTokens} tokens of ${of}, in ${seconds.toFixed(1)} s`,
    ...sources.map(
      ({ source, ...own }) =>
        `  ${source}: loss ${own.loss.toFixed(4)}, ${own.bitsPerByte.toFixed(3)} bits a byte, over ${own.validTokens} tokens`,
    ),
    "",
  ].join("\n");
}
