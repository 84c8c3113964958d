/** What a run may begin with of another: weights, from a checkpoint or a Hugging Face folder, or a whole state, from a checkpoint. */
import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import type { HostArray, Spec } from "../core/index.ts";
import { parseHfConfig } from "../models/hfConfig.ts";
import { llamaToHf } from "../models/hfMapping.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import { withVocabularyRows } from "../models/vocabularyRows.ts";
import { loadHfLlama } from "./hfLlama.ts";
import { readJsonObject } from "./modelFiles.ts";
import { notFiniteAt } from "./notFinite.ts";
import { openShards } from "./processShards.ts";
import { type ChosenCheckpoint, chooseCheckpoint, listCheckpoints } from "./stepFolders.ts";
import { type LoadedCheckpoint, loadCheckpoint, loadCheckpointParameters } from "./trainingCheckpoint.ts";

/** Weights that a run begins with, and where they are from. */
export interface StartingParameters {
  /** Float32, on the host. */
  readonly params: LlamaTree<HostArray>;
  /** The folder they were read from. */
  readonly from: string;
  /** Newer checkpoints of the same run that are not whole, a sentence each. */
  readonly passedOver: readonly string[];
}

/** A whole state that a run begins with, and where it is from. */
export interface StartingState {
  readonly state: LoadedCheckpoint;
  /** The step's folder. */
  readonly from: string;
  /** Newer checkpoints of the same run that are not whole, a sentence each. */
  readonly passedOver: readonly string[];
}

/** The setting that gave a path. */
type PathKey = "load_parameters_path" | "load_full_state_path";

type Size = string | number | boolean | undefined;
type Sizes = Readonly<Record<string, Size>>;

/** What weights must agree in with the model, by the keys of the settings. */
export function sizesOf(config: LlamaConfig): Sizes {
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
  const key = "load_parameters_path";
  const checkpoint = await checkpointAt(path, key);
  if (checkpoint !== undefined) {
    const { path: from, passedOver } = checkpoint;
    const stored = await requireModel(key, from, config);
    const params = await loadCheckpointParameters(from, stored);
    return { params: withVocabularyRows(params, config), from, passedOver };
  }
  if (existsSync(join(path, "config.json"))) return fromHuggingFace(path, config);
  return refuse(
    key,
    path,
    `${whatIsThere(path)}. Give a run's folder, one of its checkpoints, or a Hugging Face folder of a Llama model`,
  );
}

/**
 * Weights, moments, counts and what else a checkpoint knows. @param path a step folder, or a run's folder
 * @throws UserError (E_LOAD_PARAMETERS) where there is none, or for another model than `config`
 */
export async function loadFullState(path: string, config: LlamaConfig): Promise<StartingState> {
  const key = "load_full_state_path";
  const checkpoint = await checkpointAt(path, key);
  if (checkpoint !== undefined) {
    const { path: from, passedOver } = checkpoint;
    const stored = await requireModel(key, from, config);
    const state = await loadCheckpoint(from, stored);
    return { state: withRowsOf(state, config), from, passedOver };
  }
  if (existsSync(join(path, "config.json"))) {
    return refuse(
      key,
      path,
      "a Hugging Face folder has weights, but no optimizer and no count of steps: load_parameters_path begins with weights alone",
    );
  }
  return refuse(key, path, `${whatIsThere(path)}. Give a run's folder, or one of its checkpoints`);
}

const whatIsThere = (path: string): string => (existsSync(path) ? "it holds no weights" : "there is no such folder");

/** The whole checkpoint that a path stands for; undefined where it stands for none. @throws UserError */
async function checkpointAt(path: string, key: PathKey): Promise<ChosenCheckpoint | undefined> {
  const chosen = await chooseCheckpoint(path, (what) => refuse(key, path, what));
  if (chosen !== undefined) return chosen;
  if (statSync(path, { throwIfNoEntry: false })?.isFile()) {
    const folder = path.endsWith(".gguf")
      ? `make a folder of it first: halfbyte convert ${path} output=FOLDER`
      : `give the folder it is in, ${dirname(path)}`;
    return refuse(key, path, `this is a file: ${folder}`);
  }
  if (listCheckpoints(path).length > 0) {
    return refuse(
      key,
      path,
      `these are a run's checkpoints: give the run's folder, ${dirname(path)}, or one step's folder in it`,
    );
  }
  return undefined;
}

/** The model with the rows of padding that a checkpoint has. @throws UserError where that is of another model */
async function requireModel(key: PathKey, path: string, config: LlamaConfig): Promise<LlamaConfig> {
  const stored = await sizesOfTensors(path);
  requireSizes(key, path, { ...stored, ...sizesSaid(path, config.dtype) }, config);
  return withStoredRows(config, stored);
}

async function fromHuggingFace(path: string, config: LlamaConfig): Promise<StartingParameters> {
  const key = "load_parameters_path";
  const file = join(path, "config.json");
  requireSizes(key, path, sizesOf(parseHfConfig(readJsonObject(file), config.dtype, file).config), config);
  const { params } = await loadHfLlama(path, config.dtype);
  for (const [name, { data }] of llamaToHf(params)) {
    const index = notFiniteAt(data as Float32Array);
    if (index >= 0) refuse(key, path, `value ${index} of "${name}" is ${data[index]}`);
  }
  return { params: withVocabularyRows(params, config), from: path, passedOver: [] };
}

/** The model with the rows of padding that a checkpoint has. */
function withStoredRows({ paddedVocabSize: _, ...config }: LlamaConfig, { vocab_size: rows }: Sizes): LlamaConfig {
  return typeof rows === "number" && rows > config.vocabSize ? { ...config, paddedVocabSize: rows } : config;
}

/** A state with the rows of padding that a model has: theirs never had a gradient, so that their moments are zeros too. */
function withRowsOf({ params, optimizer, ...others }: LoadedCheckpoint, config: LlamaConfig): LoadedCheckpoint {
  const rows = (tree: LlamaTree<HostArray>) => withVocabularyRows(tree, config);
  const { count, mu, nu } = optimizer;
  return { ...others, params: rows(params), optimizer: { count, mu: rows(mu), nu: rows(nu) } };
}

/** What the shapes of a checkpoint tell. */
async function sizesOfTensors(path: string): Promise<Sizes> {
  const file = await openShards(path, "params");
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

/** What is said of the weights beside them: in their own folder, as `halfbyte convert` writes it, or by their run's settings. */
function sizesSaid(path: string, dtype: LlamaConfig["dtype"]): Sizes {
  const own = join(path, "config.json");
  if (existsSync(own)) return sizesOf(parseHfConfig(readJsonObject(own), dtype, own).config);
  // Beyond a link, as `best` of a run's folder is.
  const ofRun = join(realpathSync(path), "..", "..", "config.json");
  return existsSync(ofRun) ? (readJsonObject(ofRun) as Sizes) : {};
}

/** @throws UserError naming every size that differs */
function requireSizes(key: PathKey, path: string, stored: Sizes, config: LlamaConfig): void {
  const differing = Object.entries(sizesOf(config)).filter(
    ([size, wanted]) => stored[size] !== undefined && stored[size] !== wanted,
  );
  if (differing.length === 0) return;
  const found = differing.map(([size]) => `${size}=${shown(stored[size])}`);
  const wanted = differing.map(([size, value]) => `${size}=${value}`);
  refuse(key, path, `the weights have ${found.join(", ")}, the run ${wanted.join(", ")}: set ${found.join(" ")}`);
}

/** A file may say anything where a size is meant. */
const shown = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value) : String(value));

function refuse(key: PathKey, path: string, what: string): never {
  throw new UserError("E_LOAD_PARAMETERS", `${key}=${path}: ${what}`);
}
