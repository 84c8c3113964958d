/** Weights to begin a run with: from a checkpoint of another run, or from a Hugging Face folder. */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import type { HostArray, Spec } from "../core/index.ts";
import { parseHfConfig } from "../models/hfConfig.ts";
import { llamaToHf } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import { loadHfLlama } from "./hfLlama.ts";
import { openSafetensors } from "./safetensors.ts";
import { listCheckpoints, loadCheckpointParameters, newestCheckpoint, notFiniteAt } from "./trainingCheckpoint.ts";
import { faultOf } from "./wholeFolder.ts";

/** Weights that a run begins with, and where they are from. */
export interface StartingParameters {
  /** Float32, on the host. */
  readonly params: LlamaTree<HostArray>;
  /** The folder they were read from. */
  readonly from: string;
}

type Size = string | number | boolean | undefined;
type Sizes = Readonly<Record<string, Size>>;

/** What weights must agree in with the model, by the keys of the settings. */
function sizesOf(config: LlamaConfig): Sizes {
  const { ropeScaling } = config;
  return {
    vocab_size: config.vocabSize,
    emb_dim: config.embDim,
    mlp_dim: config.mlpDim,
    num_decoder_layers: config.numLayers,
    num_query_heads: config.numHeads,
    num_kv_heads: config.numKvHeads,
    head_dim: config.headDim,
    logits_via_embedding: config.tieEmbeddings,
    rope_theta: config.ropeTheta,
    rope_type: ropeScaling === undefined ? "default" : "llama3.1",
    rope_factor: ropeScaling?.factor,
    rope_low_freq_factor: ropeScaling?.lowFreqFactor,
    rope_high_freq_factor: ropeScaling?.highFreqFactor,
    original_max_position_embeddings: ropeScaling?.originalMaxPosition,
    norm_eps: config.normEps,
  };
}

/**
 * @param path a step folder, a run's folder (its newest whole checkpoint), or a folder with config.json and safetensors
 * @throws UserError (E_LOAD_PARAMETERS) where there is none, or for another model than `config`: it names the key to set
 */
export async function loadParameters(path: string, config: LlamaConfig): Promise<StartingParameters> {
  if (existsSync(join(path, "checkpoints"))) {
    const newest = await newestCheckpoint(join(path, "checkpoints"), () => {});
    if (newest === undefined) return refuse(path, "the run has no whole checkpoint");
    return fromCheckpoint(newest.path, config);
  }
  if (existsSync(join(path, "params.safetensors"))) {
    const fault = await faultOf(path);
    return fault === undefined ? fromCheckpoint(path, config) : refuse(path, `the checkpoint is damaged: ${fault}`);
  }
  if (existsSync(join(path, "config.json"))) return fromHuggingFace(path, config);
  if (statSync(path, { throwIfNoEntry: false })?.isFile()) {
    return refuse(path, `this is a file: give the folder it is in, ${dirname(path)}`);
  }
  if (listCheckpoints(path).length > 0) {
    return refuse(
      path,
      `these are a run's checkpoints: give the run's folder, ${dirname(path)}, or one step's folder in it`,
    );
  }
  const what = existsSync(path) ? "it holds no weights" : "there is no such folder";
  return refuse(
    path,
    `${what}. Give a run's folder, one of its checkpoints, or a Hugging Face folder of a Llama model`,
  );
}

async function fromCheckpoint(path: string, config: LlamaConfig): Promise<StartingParameters> {
  // Beyond a link, as `best` of a run's folder is.
  const run = join(realpathSync(path), "..", "..");
  requireSizes(path, { ...(await sizesOfTensors(path)), ...settingsOfRun(run) }, config);
  return { params: await loadCheckpointParameters(path, config), from: path };
}

async function fromHuggingFace(path: string, config: LlamaConfig): Promise<StartingParameters> {
  const file = join(path, "config.json");
  requireSizes(path, sizesOf(parseHfConfig(readJson(file), config.dtype, file).config), config);
  const { params } = await loadHfLlama(path, config.dtype);
  for (const [name, { data }] of llamaToHf(params)) {
    const index = notFiniteAt(data as Float32Array);
    if (index >= 0) refuse(path, `value ${index} of "${name}" is ${data[index]}`);
  }
  return { params, from: path };
}

/** What the shapes of a checkpoint tell. */
async function sizesOfTensors(path: string): Promise<Sizes> {
  const file = await openSafetensors(join(path, "params.safetensors"));
  await file.close();
  const dims = (name: string) => (file.tensors.get(name) as Spec | undefined)?.shape ?? [];
  const layers = [...file.tensors.keys()].map((name) => Number(/^model\.layers\.(\d+)\./.exec(name)?.[1] ?? -1));
  const [vocab_size, emb_dim] = dims("model.embed_tokens.weight");
  return {
    vocab_size,
    emb_dim,
    mlp_dim: dims("model.layers.0.mlp.gate_proj.weight")[0],
    num_decoder_layers: Math.max(...layers) + 1,
    logits_via_embedding: !file.tensors.has("lm_head.weight"),
  };
}

/** A run's settings, where the checkpoint lies in its folder. */
function settingsOfRun(run: string): Sizes {
  const file = join(run, "config.json");
  return existsSync(file) ? (readJson(file) as Sizes) : {};
}

/** @throws UserError naming every size that differs */
function requireSizes(path: string, stored: Sizes, config: LlamaConfig): void {
  const differing = Object.entries(sizesOf(config)).filter(
    ([key, wanted]) => stored[key] !== undefined && stored[key] !== wanted,
  );
  if (differing.length === 0) return;
  const found = differing.map(([key]) => `${key}=${stored[key]}`);
  const wanted = differing.map(([key, value]) => `${key}=${value}`);
  refuse(path, `the weights have ${found.join(", ")}, the run ${wanted.join(", ")}: set ${found.join(" ")}`);
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    return refuse(path, `not readable as JSON (${(error as Error).message})`);
  }
}

function refuse(path: string, what: string): never {
  throw new UserError("E_LOAD_PARAMETERS", `load_parameters_path=${path}: ${what}`);
}
