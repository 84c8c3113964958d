/** `halfbyte quantize`: a model's weights in a narrow format for inference programs, and back. */
import { existsSync } from "node:fs";
import { megabytes } from "../base/byteSize.ts";
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { decompressModel, notWritable, readJson, type WeightFormatName, weightFormats } from "../checkpoint/index.ts";
import { quantizeModel } from "../convert/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { progressLine } from "./progressLine.ts";
import { errorRows, showErrors } from "./quantizeReport.ts";
import { Stopped, sayStopped, stopOnSignals } from "./stopped.ts";

const keys = ["to", "output", "ignore", "input_amax"] as const;
type Settings = Readonly<Partial<Record<(typeof keys)[number], string>>>;

const formatNames = Object.keys(weightFormats) as readonly WeightFormatName[];

export const command: Command = {
  help: `Usage: halfbyte quantize MODEL to=FORMAT output=FOLDER [key=value …] [--json]

Quantizes the weights of a model's linear layers for inference programs (vLLM, SGLang, transformers), in the layout of
compressed-tensors, and reports what that did to each; or makes plain weights of quantized ones. Embeddings, lm_head, norms
and the routers of experts stay as they are; tokenizer, templates and the like are copied.

  MODEL         a Hugging Face folder (config.json and model.safetensors, or shards with their index), a .safetensors file,
                a run's folder (its newest whole checkpoint) or one of its checkpoints
  to            the format:
${formatNames.map((name) => `                  ${name.padEnd(12)} ${weightFormats[name].meaning}${weightFormats[name].fixedInputs ? "; needs input_amax" : ""}`).join("\n")}
                  bf16         plain weights again; reads this layout and NVIDIA ModelOpt's
  output        the folder to write; it must not exist
  ignore        modules to leave as they are, separated by commas; * is any text: ignore=*.down_proj,model.layers.0.*
  input_amax    the largest magnitude of the inputs, for formats that fix their scale: a number for all modules, or a .json
                file that gives each module's ({"model.layers.0.mlp.up_proj": 12.5, …}). It is found by running the model on
                data, which this command doesn't do
  --json        the result as one JSON object on standard output, with every tensor

Example: halfbyte quantize Llama-3.2-1B to=nvfp4a16 output=Llama-3.2-1B-NVFP4A16
         halfbyte quantize runs/books to=mxfp8 output=books-MXFP8
         halfbyte quantize Llama-3.2-1B-NVFP4A16 to=bf16 output=Llama-3.2-1B-again
`,
  async run(args) {
    const { settings, flags, words } = parseArguments(args, { keys, maxWords: 1 });
    const [path] = words;
    if (path === undefined) {
      throw new UserError("E_ARGUMENT", "the model is missing; usage: halfbyte quantize MODEL to=FORMAT output=FOLDER");
    }
    const { to, output } = { to: required(settings, "to"), output: required(settings, "output") };
    const stop = stopOnSignals();
    try {
      const text =
        to.toLowerCase() === "bf16"
          ? await decompress(path, output, settings, stop)
          : await quantize({ path, to, output }, settings, stop);
      await new Promise((done) => process.stdout.write(flags.has("json") ? text.json : text.text, done));
      return 0;
    } catch (error) {
      if (error instanceof Stopped) return sayStopped(error);
      throw notWritable(output, error);
    }
  },
};

interface Output {
  readonly text: string;
  readonly json: string;
}

async function quantize(
  { path, to, output }: { readonly path: string; readonly to: string; readonly output: string },
  { ignore, input_amax }: Settings,
  stop: () => void,
): Promise<Output> {
  const name = formatNamed(to);
  const format = weightFormats[name];
  const inputAmax = inputAmaxOf(name, input_amax);
  const progress = progressLine();
  const start = performance.now();
  const result = await quantizeModel(path, output, {
    format,
    ...(ignore !== undefined && { ignore: ignore.split(",").filter((pattern) => pattern !== "") }),
    ...(inputAmax !== undefined && { inputAmax }),
    onProgress: (done, of) => {
      stop();
      progress.show(`${Math.round((100 * done) / of)} % of ${megabytes(of / 2)}, read twice`);
    },
  }).finally(() => progress.clear());
  const seconds = (performance.now() - start) / 1000;
  const tensors = errorRows(result.tensors);
  const facts = {
    output,
    format: name,
    layout: format.layout,
    seconds,
    bytesBefore: result.bytesBefore,
    bytes: result.bytes,
  };
  const { ignored, copied, notes } = result;
  return {
    json: `${JSON.stringify({ ...facts, ignored, copied, notes, tensors })}\n`,
    text: [
      ...showErrors(tensors),
      "",
      `${output}: ${tensors.length} weights as ${name}: ${weightFormats[name].meaning}`,
      `${megabytes(result.bytesBefore)} became ${megabytes(result.bytes)} in ${seconds.toFixed(1)} s (${megabytes(result.bytesBefore / seconds)} a second)`,
      ...(ignored.length === 0
        ? []
        : [`left as they are: ${ignored.length} linear layers (ignore, and routers of experts)`]),
      ...notes.map((note) => `note: ${note}`),
      "",
    ].join("\n"),
  };
}

async function decompress(path: string, output: string, settings: Settings, stop: () => void): Promise<Output> {
  const useless = (["ignore", "input_amax"] as const).find((key) => settings[key] !== undefined);
  if (useless !== undefined) throw new UserError("E_NO_EFFECT", `${useless} has no effect with to=bf16: leave it out`);
  const progress = progressLine();
  const start = performance.now();
  const result = await decompressModel(path, output, (done, of) => {
    stop();
    progress.show(`weight ${done} of ${of}`);
  }).finally(() => progress.clear());
  const seconds = (performance.now() - start) / 1000;
  return {
    json: `${JSON.stringify({ output, format: "bf16", seconds, ...result })}\n`,
    text: [
      `${output}: ${result.tensors.length} weights as bfloat16; ${megabytes(result.bytesBefore)} became ${megabytes(result.bytes)} in ${seconds.toFixed(1)} s`,
      ...result.notes.map((note) => `note: ${note}`),
      "",
    ].join("\n"),
  };
}

function formatNamed(to: string): WeightFormatName {
  const name = to.toLowerCase().replaceAll("-", "_");
  if (Object.hasOwn(weightFormats, name)) return name as WeightFormatName;
  const near = nearest(name, [...formatNames, "bf16"]);
  throw new UserError(
    "E_FORMAT",
    `to=${to}: must be one of ${[...formatNames, "bf16"].join(", ")}${near ? `; did you mean ${near}?` : ""}`,
  );
}

/** @throws UserError where the format needs it and it is missing, or it would have no effect */
function inputAmaxOf(name: WeightFormatName, given: string | undefined): number | Record<string, number> | undefined {
  if (!weightFormats[name].fixedInputs) {
    if (given === undefined) return undefined;
    throw new UserError("E_NO_EFFECT", `input_amax has no effect with to=${name}, which stores nothing of the inputs`);
  }
  if (given === undefined) {
    const without = name === "nvfp4" ? "nvfp4a16 (weights alone)" : "fp8_dynamic (inputs' scales found as they come)";
    throw new UserError(
      "E_INPUT_AMAX",
      `to=${name} fixes the scale of each layer's inputs, so input_amax must give their largest magnitudes, found by running the model on data; without them take to=${without}`,
    );
  }
  const isAmax = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value > 0;
  if (given.endsWith(".json") || existsSync(given)) {
    const json = readJson(given) as Record<string, unknown>;
    const wrong = Object.entries(json ?? {}).find(([, value]) => !isAmax(value));
    if (typeof json !== "object" || json === null || Array.isArray(json) || wrong !== undefined) {
      const what = wrong === undefined ? "it is no object" : `"${wrong[0]}" is ${JSON.stringify(wrong[1])}`;
      throw new UserError("E_INPUT_AMAX", `${given}: ${what}; it must map modules to numbers above 0`);
    }
    return json as Record<string, number>;
  }
  if (isAmax(Number(given))) return Number(given);
  throw new UserError("E_INPUT_AMAX", `input_amax=${given}: must be a number above 0, or a .json file of them`);
}

function required(settings: Settings, key: "to" | "output"): string {
  const value = settings[key];
  if (value) return value;
  throw new UserError("E_KEY", `${key}=… is missing; \`halfbyte quantize --help\` shows an example`);
}
