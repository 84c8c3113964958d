/** Names of the Llama parameters here and in Hugging Face checkpoints: one table, both ways. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { type HostArray, type Spec, sameShape, showSpec, treeMap, treePaths } from "../core/index.ts";
import { type LlamaBlock, type LlamaConfig, type LlamaTree, llamaShapes } from "./llama.ts";

const blockModules: Readonly<Record<keyof LlamaBlock<unknown>, string>> = {
  attnNorm: "input_layernorm",
  q: "self_attn.q_proj",
  k: "self_attn.k_proj",
  v: "self_attn.v_proj",
  o: "self_attn.o_proj",
  mlpNorm: "post_attention_layernorm",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
};

const topModules: Readonly<Record<Exclude<keyof LlamaTree<unknown>, "layers">, string>> = {
  embed: "model.embed_tokens",
  norm: "model.norm",
  head: "lm_head",
};

const lookUp = (table: Readonly<Record<string, string>>, name: string): string | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

const reversed = (table: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(table).map(([ours, theirs]) => [theirs, ours]));

const [blockKeys, topKeys] = [reversed(blockModules), reversed(topModules)];

/** "layers.3.q" → "model.layers.3.self_attn.q_proj.weight"; undefined for a path that is no parameter. */
export function hfName(path: string): string | undefined {
  const [, layer, key] = /^layers\.(\d+)\.(\w+)$/.exec(path) ?? [];
  const module = key === undefined ? lookUp(topModules, path) : lookUp(blockModules, key);
  if (module === undefined) return undefined;
  return key === undefined ? `${module}.weight` : `model.layers.${layer}.${module}.weight`;
}

/** "model.layers.3.self_attn.q_proj.weight" → "layers.3.q"; undefined for a name that is no parameter. */
export function pathOfHfName(name: string): string | undefined {
  const [, layer, module] = /^model\.layers\.(\d+)\.(.+)\.weight$/.exec(name) ?? [];
  if (module !== undefined) {
    const key = lookUp(blockKeys, module);
    return key && `layers.${layer}.${key}`;
  }
  return name.endsWith(".weight") ? lookUp(topKeys, name.slice(0, -".weight".length)) : undefined;
}

/** The tree of Hugging Face names of a model's parameters. */
export function hfNames(config: LlamaConfig): LlamaTree<string> {
  // Shapes are arrays, which trees would descend into: specs are leaves.
  const specs = llamaSpecs(config);
  return treeMap((_: Spec, path: string) => hfName(path), specs);
}

/** The float32 specs of every parameter. */
export function llamaSpecs(config: LlamaConfig): LlamaTree<Spec> {
  const shapes = llamaShapes(config);
  const spec = (shape: readonly number[]): Spec => ({ shape, dtype: "float32" });
  const block = (layer: LlamaBlock<readonly number[]>) =>
    Object.fromEntries(Object.entries(layer).map(([key, shape]) => [key, spec(shape)])) as unknown as LlamaBlock<Spec>;
  return {
    embed: spec(shapes.embed),
    layers: shapes.layers.map(block),
    norm: spec(shapes.norm),
    ...(shapes.head && { head: spec(shapes.head) }),
  };
}

/** Arrays by their Hugging Face names, in the order of the tree: what a checkpoint file holds. */
export function llamaToHf<Leaf>(params: LlamaTree<Leaf>): [string, Leaf][] {
  return treePaths(params).map(({ path, leaf }) => {
    const name = hfName(path);
    if (name === undefined) throw new UserError("E_PARAMETER", `"${path}" is no parameter of a Llama model`);
    return [name, leaf as Leaf];
  });
}

/** Whether an entry of a checkpoint holds nothing of the model: recomputed tables, and a tied head stored once more. */
export function isRedundant(name: string, { tieEmbeddings }: LlamaConfig): boolean {
  return name.endsWith(".rotary_emb.inv_freq") || (tieEmbeddings && name === headName);
}

/** Of the output head; a model without has the embedding as its head. */
export const headName = hfName("head")!;
export const embeddingName = hfName("embed")!;

/** Names in a message before it says how many more there are. */
const shownNames = 8;

/**
 * Checks names and shapes of a checkpoint's tensors against a model.
 * @throws UserError naming all that are missing, unknown (a bias, say: the model would compute something else) or misshapen
 */
export function checkHfTensors(config: LlamaConfig, tensors: ReadonlyMap<string, Spec>): void {
  // Names of the layers are made below: a number that no file holds must not decide how many.
  if (config.numLayers > tensors.size) {
    fail(`names are ${tensors.size}, too few for the ${config.numLayers} layers that the configuration has`);
  }
  const expected = new Map(llamaToHf(llamaSpecs(config)));
  const missing = [...expected].filter(([name]) => !tensors.has(name));
  const unknown = [...tensors.keys()].filter((name) => !expected.has(name) && !isRedundant(name, config));
  if (missing.length > 0) {
    const [name, { shape }] = missing[0]!;
    const near = nearest(name, unknown);
    const more = missing.length > 1 ? `, and so are ${missing.length - 1} more` : "";
    const found = near ? `; the nearest is "${near}"` : "";
    const tied =
      name === headName
        ? `. Where the embedding is the head, config.json must say tie_word_embeddings: true; left out it means false`
        : "";
    fail(`"${name}" is missing (the configuration needs [${shape}])${more}${found}${tied}`);
  }
  for (const [name, { shape }] of expected) {
    const found = tensors.get(name)!;
    if (!sameShape(found.shape, shape)) fail(`"${name}" is ${showSpec(found)}; the configuration needs [${shape}]`);
  }
  if (unknown.length === 0) return;
  const list = unknown.slice(0, shownNames).map((name) => `"${name}"`);
  const more = unknown.length > shownNames ? ` and ${unknown.length - shownNames} more` : "";
  const none = unknown.length === 1 ? "is no tensor" : "are no tensors";
  fail(`${list.join(", ")}${more} ${none} of a Llama model like this one`);
}

function fail(message: string): never {
  throw new UserError("E_CHECKPOINT", `checkpoint tensor ${message}`);
}

/** The parameters from a checkpoint, fetched one by one. */
export async function llamaFromHf(
  config: LlamaConfig,
  fetchTensor: (name: string) => Promise<HostArray>,
): Promise<LlamaTree<HostArray>> {
  const arrays = new Map<string, HostArray>();
  for (const [, name] of llamaToHf(hfNames(config))) arrays.set(name, await fetchTensor(name));
  return treeMap((name: string) => arrays.get(name), hfNames(config));
}
