/** A Hugging Face folder as a source, with plain weights or with quantized ones, which are decoded. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { checkStoredHead } from "../checkpoint/hfLlama.ts";
import { type ModelFiles, openModelFiles, readJsonObject } from "../checkpoint/modelFiles.ts";
import { findQuantizedWeights, isSidePart, type QuantizedWeight } from "../checkpoint/quantizedWeights.ts";
import { othersOf } from "../checkpoint/writeModelFiles.ts";
import { hostArray, isFloat, showSpec } from "../core/index.ts";
import { type HfLlamaConfig, parseHfConfig } from "../models/hfConfig.ts";
import { checkHfTensors, isRedundant, llamaSpecs, llamaToHf } from "../models/hfMapping.ts";
import { decodeWeight } from "../quant/storedWeights.ts";
import type { ModelSource, SourceTensor } from "./source.ts";

/** Says what the weights were before they were decoded. */
const quantizerFiles = ["hf_quant_config.json"];

/** @throws UserError where a file is missing or malformed, or it is no model that is read here */
export async function openHuggingFace(path: string): Promise<ModelSource> {
  const configPath = join(path, "config.json");
  const { quantization_config: quantization, ...json } = readJsonObject(configPath);
  const config = parseHfConfig(json, "float32", configPath);
  const model = await openModelFiles(path);
  try {
    const quantized = quantization != null;
    const all = quantized ? decodedTensors(model) : storedTensors(model);
    checkHfTensors(config.config, all);
    if (!quantized) await checkStoredHead(config.config, model);
    return {
      kind: "huggingface",
      path,
      config,
      json,
      tensors: inOrder(config, all),
      metadata: Object.assign({}, ...model.files.map(({ metadata }) => metadata)),
      files: (await othersOf(path, quantizerFiles)).map((name) => ({ name, from: join(path, name) })),
      ...(existsSync(join(path, "tokenizer.json")) && { tokenizerPath: path }),
      dropped: [...all.keys()].filter((name) => isRedundant(name, config.config)),
      notes: model.notes,
      quantized,
      close: () => model.close(),
    };
  } catch (error) {
    await model.close();
    throw error;
  }
}

/** The model's tensors alone, checked to be there, as the model has them. */
export function inOrder({ config }: HfLlamaConfig, all: ReadonlyMap<string, SourceTensor>): Map<string, SourceTensor> {
  return new Map(llamaToHf(llamaSpecs(config)).map(([name]) => [name, all.get(name)!]));
}

function storedTensors(model: ModelFiles): Map<string, SourceTensor> {
  const tensors = [...model.specs].map(([name, spec]): [string, SourceTensor] => [
    name,
    { ...spec, unit: 1, readPart: (begin, count) => model.readPart(name, begin, count) },
  ]);
  for (const [name, spec] of tensors) {
    if (isFloat(spec.dtype) && !spec.dtype.startsWith("float8")) continue;
    throw new UserError("E_CHECKPOINT", `"${name}" is ${showSpec(spec)}; weights must be floats of 16 bits or more`);
  }
  return new Map(tensors);
}

/** Float32 weights of quantized ones, decoded some rows at a time, among those that are stored plain. */
function decodedTensors(model: ModelFiles): Map<string, SourceTensor> {
  const weights = findQuantizedWeights(model);
  const names = new Set(weights.map(({ name }) => name));
  const plain = [...storedTensors({ ...model, specs: plainSpecs(model, names) })];
  return new Map([...plain, ...weights.map((weight) => [`${weight.module}.weight`, decoded(weight)] as const)]);
}

function decoded({ shape, rowsTogether, load }: QuantizedWeight): SourceTensor {
  const inner = shape[1];
  const unit = rowsTogether * inner;
  const readPart = async (begin: number, count: number) => {
    const first = Math.floor(begin / unit) * rowsTogether;
    const values = decodeWeight(await load({ begin: first, end: Math.ceil((begin + count) / inner) }));
    const skipped = begin - first * inner;
    return hostArray([count], "float32", values.subarray(skipped, skipped + count));
  };
  return { shape, dtype: "float32", unit, readPart };
}

const plainSpecs = ({ specs }: ModelFiles, quantized: ReadonlySet<string>): ModelFiles["specs"] =>
  new Map([...specs].filter(([name]) => !quantized.has(name) && !isSidePart(name)));
