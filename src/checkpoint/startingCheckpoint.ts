/** What a run may begin with of a checkpoint of another: its weights, or its whole state. */
import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { HostArray, Spec } from "../core/index.ts";
import { parseHfConfig } from "../models/hfConfig.ts";
import type { LlamaConfig, LlamaTree } from "../models/llama.ts";
import { withVocabularyRows } from "../models/vocabularyRows.ts";
import { checkpointsFolder, readJsonObject } from "./modelFiles.ts";
import { type GivenPath, refusePath, requireSizes, type Sizes, sizesOf } from "./modelSizes.ts";
import { hasShards, openShards } from "./processShards.ts";
import { type Progress, readProgress } from "./progress.ts";
import { type ChosenCheckpoint, chooseCheckpoint, listCheckpoints } from "./stepFolders.ts";
import { type LoadedCheckpoint, loadCheckpoint, loadCheckpointParameters } from "./trainingCheckpoint.ts";

/** Weights that a run begins with, and where they are from. */
export interface StartingParameters {
  /** Float32, on the host. */
  readonly params: LlamaTree<HostArray>;
  /** The folder or file they were read from. */
  readonly from: string;
  /** What a person may not expect of how they were read, a sentence each. */
  readonly notes: readonly string[];
  /** The hash of the tokenizer that they were trained with, where they are a checkpoint's of text. */
  readonly tokenizer?: string;
}

/** A whole state that a run begins with, and where it is from. */
export interface StartingState {
  readonly state: LoadedCheckpoint;
  /** The step's folder. */
  readonly from: string;
  /** What a person may not expect of how it was read, a sentence each. */
  readonly notes: readonly string[];
}

/**
 * @param path a step folder, or a run's folder (its newest whole checkpoint)
 * @returns undefined where the path is neither
 * @throws UserError (E_LOAD_PARAMETERS) where the checkpoint is damaged, or of another model than `config`
 */
export async function loadCheckpointWeights(
  path: string,
  config: LlamaConfig,
): Promise<StartingParameters | undefined> {
  const given = { key: "load_parameters_path", path } as const;
  const checkpoint = await checkpointAt(given);
  if (checkpoint === undefined) return undefined;
  const { path: from, passedOver } = checkpoint;
  const { stored, notes } = await requireModel(given, from, config);
  const params = await loadCheckpointParameters(from, stored);
  const tokenizer = progressSaid(from)?.data.tokenizer;
  return {
    params: withVocabularyRows(params, config),
    from,
    notes: [...passedOver, ...notes],
    ...(tokenizer !== undefined && { tokenizer: String(tokenizer) }),
  };
}

/**
 * Weights, moments, counts and what else a checkpoint knows. @param path a step folder, or a run's folder
 * @throws UserError (E_LOAD_PARAMETERS) where there is none, or for another model than `config`
 */
export async function loadFullState(path: string, config: LlamaConfig): Promise<StartingState> {
  const given = { key: "load_full_state_path", path } as const;
  const checkpoint = await checkpointAt(given);
  if (checkpoint === undefined) return refusePath(given, whyNoState(path));
  const { path: from, passedOver } = checkpoint;
  const { stored, notes } = await requireModel(given, from, config);
  const state = await loadCheckpoint(from, stored);
  return { state: withRowsOf(state, config), from, notes: [...passedOver, ...notes] };
}

function whyNoState(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return "there is no such folder. Give a run's folder, or one of its checkpoints";
  if (stat.isFile() && hasShards(dirname(path), "params"))
    return `this is a file: give the folder it is in, ${dirname(path)}`;
  if (stat.isFile() || existsSync(join(path, "config.json"))) {
    const kind = stat.isFile() ? "a file of a model" : "a Hugging Face folder";
    return `${kind} has weights, but no optimizer and no count of steps: load_parameters_path begins with weights alone`;
  }
  if (listCheckpoints(path).length > 0) return checkpointsFolder(path);
  return "it holds no weights. Give a run's folder, or one of its checkpoints";
}

/** The whole checkpoint that a path stands for; undefined where it stands for none. @throws UserError */
const checkpointAt = (given: GivenPath): Promise<ChosenCheckpoint | undefined> =>
  chooseCheckpoint(given.path, (what) => refusePath(given, what));

/**
 * The model with the rows of padding that a checkpoint has, and what could not be held against it.
 * @throws UserError where the checkpoint is of another model
 */
async function requireModel(
  given: GivenPath,
  from: string,
  config: LlamaConfig,
): Promise<{ readonly stored: LlamaConfig; readonly notes: readonly string[] }> {
  const ofTensors = await sizesOfTensors(from);
  const said = sizesSaid(from, config.dtype);
  requireSizes(given, { ...ofTensors, ...said }, config);
  return { stored: withStoredRows(config, ofTensors), notes: said === undefined ? [unsaid(from)] : [] };
}

const unsaid = (from: string): string =>
  `nothing says what model ${from} is of: the shapes of its tensors fit, but heads, rope_theta, rope_type and norm_eps are the run's own, unchecked`;

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

/** Of a checkpoint; what `halfbyte convert` writes has none. */
function progressSaid(path: string): Progress | undefined {
  const state = join(path, "state.json");
  return existsSync(state) ? readProgress(state) : undefined;
}

/**
 * What is said of the weights beside them: in their own folder, by config.json as `halfbyte convert` writes it or by state.json, or
 * by their run's settings; undefined where nothing is. Earlier checkpoints have no sizes in state.json.
 */
function sizesSaid(path: string, dtype: LlamaConfig["dtype"]): Sizes | undefined {
  const own = join(path, "config.json");
  if (existsSync(own)) return sizesOf(parseHfConfig(readJsonObject(own), dtype, own).config);
  const model = progressSaid(path)?.provenance.model;
  if (model !== undefined) return model;
  // Beyond a link, as `best` of a run's folder is.
  const ofRun = join(realpathSync(path), "..", "..", "config.json");
  return existsSync(ofRun) ? (readJsonObject(ofRun) as Sizes) : undefined;
}
