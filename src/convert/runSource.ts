/** A run of Halfbyte, one of its checkpoints, or weights converted for it, as a source. */
import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { chooseCheckpoint, hasShards, openShards, readJsonObject } from "../checkpoint/index.ts";
import type { FileToCopy } from "../checkpoint/modelFiles.ts";
import { llamaConfig, resolve } from "../config/index.ts";
import { type HfLlamaConfig, parseHfConfig, toHfConfig } from "../models/hfConfig.ts";
import { checkHfTensors } from "../models/hfMapping.ts";
import { loadTokenizer } from "../tokenizers/index.ts";
import { inOrder } from "./huggingFaceSource.ts";
import type { ModelSource, SourceTensor } from "./source.ts";

export const paramsName = "params.safetensors";
const tokenizerFiles = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];

/** A run, as it is opened: what goes along with its weights are files. */
export interface RunSource extends ModelSource {
  readonly files: readonly FileToCopy[];
  readonly notes: readonly string[];
}

/** Whether a path is one that `openRun` takes. */
export const isRun = (path: string): boolean => existsSync(join(path, "checkpoints")) || hasShards(path, "params");

/** @param path a run's folder (its newest whole checkpoint), a step's folder, or a folder that `to=halfbyte` wrote */
export async function openRun(path: string): Promise<RunSource> {
  const chosen = await chooseCheckpoint(path, (what) => refuse(path, what));
  if (chosen === undefined) return refuse(path, "it is no folder of a run or of a checkpoint");
  // Beyond a link, as `best` of a run's folder is.
  const weights = chosen.path === path ? realpathSync(path) : chosen.path;
  const { config, json, tokenizer } = describe(weights);
  const file = await openShards(weights, "params");
  try {
    const stored = new Map(
      [...file.tensors].map(([name, spec]): [string, SourceTensor] => [
        name,
        { ...spec, unit: 1, readPart: (begin, count) => file.readPart(name, begin, count) },
      ]),
    );
    checkHfTensors(config.config, stored);
    return {
      kind: "halfbyte",
      path: weights,
      config,
      json,
      tensors: inOrder(config, stored),
      metadata: file.metadata,
      files: filesIn(tokenizer),
      ...(existsSync(join(tokenizer, "tokenizer.json")) && { tokenizerPath: tokenizer }),
      dropped: [],
      notes: chosen.passedOver,
      quantized: false,
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** What the weights are of, from the folder's own config.json or from the run's. */
function describe(weights: string): Pick<ModelSource, "config" | "json"> & { readonly tokenizer: string } {
  const own = join(weights, "config.json");
  if (existsSync(own)) {
    const json = readJsonObject(own);
    return { config: parseHfConfig(json, "float32", own), json, tokenizer: weights };
  }
  const run = join(weights, "..", "..");
  const file = join(run, "config.json");
  if (!existsSync(file)) refuse(weights, `there is no ${file}, which says what model it is`);
  const settings = resolve(readJsonObject(file), {}, { draft: true });
  const tokenizer = join(run, "tokenizer");
  const config: HfLlamaConfig = {
    family: "llama",
    config: llamaConfig(settings),
    maxPositions: settings.data.maxTargetLength,
    eosTokenIds: existsSync(join(tokenizer, "tokenizer.json")) ? [loadTokenizer(tokenizer).eosId] : [],
  };
  return { config, json: toHfConfig(config, { style: "transformers4", storedDtype: "float32" }), tokenizer };
}

const filesIn = (folder: string): FileToCopy[] =>
  tokenizerFiles.map((name) => ({ name, from: join(folder, name) })).filter(({ from }) => existsSync(from));

function refuse(path: string, what: string): never {
  throw new UserError("E_CHECKPOINT", `${path}: ${what}`);
}
