/** `halfbyte convert`: a model from one form to another. */
import { megabytes, parseBytes } from "../base/byteSize.ts";
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { notWritable } from "../checkpoint/index.ts";
import { type ConvertedModel, type ConvertModelOptions, convertModel, type SourceKind } from "../convert/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { progressLine } from "./progressLine.ts";
import { Stopped, sayStopped, stopOnSignals } from "./stopped.ts";

const keys = ["output", "to", "dtype", "max_shard_size", "verify"] as const;
type Settings = Readonly<Partial<Record<(typeof keys)[number], string>>>;

const forms = ["huggingface", "halfbyte"] as const;
const dtypes = ["float32", "bfloat16", "float16"] as const;
const truths = ["true", "false"] as const;

export const command: Command = {
  help: `Usage: halfbyte convert MODEL output=FOLDER [key=value …] [--json]

Writes a model as another program, or this one, reads it. Memory holds some megabytes, whatever the model's size, and FOLDER
is there whole or not at all.

  MODEL           a Hugging Face folder (config.json and safetensors; quantized weights of compressed-tensors or NVIDIA
                  ModelOpt are decoded), a GGUF file, a run's folder (its newest whole checkpoint) or one of its checkpoints
  output          the folder to write; it must not exist
  to              huggingface (default): config.json, model.safetensors (or shards and their index), the tokenizer
                  halfbyte: float32 weights with their hashes, for load_parameters_path
  dtype           of all weights: float32, bfloat16 or float16, rounded to nearest, ties to even. Default: each as it is
                  stored (float64 becomes float32); bfloat16 of a model with quantized weights
  max_shard_size  the largest file of weights, 5GB unless you say otherwise
  verify          true compares the logits of 12 tokens before and after, computed on the host from what is on disk
  --json          the result as one JSON object on standard output

Example: halfbyte convert SmolLM2-135M-Instruct.Q4_1.gguf output=SmolLM2-135M verify=true
         halfbyte convert runs/my-run dtype=bfloat16 output=my-model
`,
  async run(args) {
    const { settings, flags, words } = parseArguments(args, { keys, maxWords: 1 });
    const [path] = words;
    if (path === undefined) {
      throw new UserError("E_ARGUMENT", "the model is missing; usage: halfbyte convert MODEL output=FOLDER");
    }
    const { output } = settings;
    if (!output) {
      throw new UserError("E_KEY", "output=… is missing; `halfbyte convert --help` shows an example");
    }
    const options = optionsOf(settings);
    const stop = stopOnSignals();
    const progress = progressLine();
    const start = performance.now();
    try {
      const result = await convertModel(path, output, {
        ...options,
        onProgress: ({ stage, done, of }) => {
          stop();
          progress.show(`${stage}: ${Math.round((100 * done) / of)} %`);
        },
      }).finally(() => progress.clear());
      const seconds = (performance.now() - start) / 1000;
      const text = flags.has("json")
        ? `${JSON.stringify({ output, seconds, ...result })}\n`
        : shown(output, result, seconds);
      await new Promise((done) => process.stdout.write(text, done));
      return 0;
    } catch (error) {
      if (error instanceof Stopped) return sayStopped(error);
      throw notWritable(output, error);
    }
  },
};

/** @throws UserError telling the first wrong value */
function optionsOf({ to, dtype, max_shard_size, verify }: Settings): ConvertModelOptions {
  const form = to === undefined ? "huggingface" : chosen("to", to, forms);
  if (form === "halfbyte") {
    const useless = dtype !== undefined && dtype !== "float32" ? "dtype" : max_shard_size && "max_shard_size";
    if (useless)
      throw new UserError("E_NO_EFFECT", `${useless} has no effect with to=halfbyte, which is float32 in one file`);
  }
  const maxShardBytes = max_shard_size === undefined ? undefined : parseBytes(max_shard_size);
  if (max_shard_size !== undefined && !(maxShardBytes! > 0)) {
    throw new UserError("E_VALUE", `max_shard_size=${max_shard_size}: must be a size above 0, such as 5GB or 500MB`);
  }
  return {
    to: form,
    ...(dtype !== undefined && { dtype: chosen("dtype", dtype, dtypes) }),
    ...(maxShardBytes !== undefined && { maxShardBytes }),
    ...(verify !== undefined && { verify: chosen("verify", verify, truths) === "true" }),
  };
}

function chosen<T extends string>(key: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value.toLowerCase());
  if (found !== undefined) return found;
  const near = nearest(value, choices);
  throw new UserError(
    "E_VALUE",
    `${key}=${value}: must be one of ${choices.join(", ")}${near ? `; did you mean ${near}?` : ""}`,
  );
}

const kinds: Readonly<Record<SourceKind, string>> = {
  huggingface: "a Hugging Face folder",
  halfbyte: "a checkpoint of Halfbyte",
  gguf: "a GGUF file",
};

function shown(output: string, result: ConvertedModel, seconds: number): string {
  const { source, from, dtype, tensors, parameters, bytes, shards, files, dropped, notes, verification } = result;
  const millions = (parameters / 1e6).toFixed(parameters < 1e7 ? 2 : 0);
  return [
    `${output}: from ${source}, ${kinds[from]}`,
    `  ${tensors} tensors, ${millions} million parameters, ${dtype}: ${megabytes(bytes)} in ${shards === 1 ? "one file" : `${shards} files`}, ${seconds.toFixed(1)} s`,
    ...(files.length > 0 ? [`  beside them: config.json, ${files.join(", ")}`] : []),
    ...(dropped.length > 0 ? [`  left out, for they say nothing of their own: ${dropped.join(", ")}`] : []),
    ...notes.map((note) => `  note: ${note}`),
    ...(verification ? [showVerification(verification)] : []),
    "",
  ].join("\n");
}

function showVerification(found: NonNullable<ConvertedModel["verification"]>): string {
  const { tokens, maxDifference, deviation, sameBest } = found;
  const share = deviation > 0 ? ` (${((100 * maxDifference) / deviation).toPrecision(2)} % of their deviation)` : "";
  const difference = maxDifference === 0 ? "equal" : `at most ${maxDifference.toPrecision(3)} apart${share}`;
  return `  verified: logits of ${tokens} tokens are ${difference}; ${sameBest} of ${tokens} have the same likeliest next token`;
}
