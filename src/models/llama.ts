/**
 * The Llama family (Touvron et al. 2023; Llama 3's rotary scaling): grouped-query attention, rotary positions, RMSNorm
 * before each half of a block, SwiGLU, tied or separate head.
 *
 * Dims: B batch, T time, D model, N query heads, K key heads, H head dim, F mlp, V vocabulary, M = B·T tokens.
 */
import { type RematPolicy, remat } from "../autodiff/index.ts";
import { checkpointName, dot, inPass, namedScope, type Tensor, take } from "../core/index.ts";
import {
  causalAttention,
  crossEntropy,
  type Llama3RopeScaling,
  type RopeTables,
  rmsNorm,
  rope,
  ropeTables,
  segmentPositions,
  segmentStarts,
  swiglu,
} from "../nn/index.ts";
import {
  type DelayedScaling,
  delayedScalingOf,
  type LinearPrecision,
  type LinearTaps,
  linear,
  type RandomKey,
} from "../quant/index.ts";
import {
  type LayerFunction,
  type LayerPlace,
  type LayerSegment,
  layerSegments,
  scannedLayers,
  unrolledLayers,
} from "./layerSegments.ts";

/** Sizes of a Llama and the constants of its layers. */
export interface LlamaConfig {
  readonly numLayers: number;
  readonly embDim: number;
  readonly mlpDim: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly vocabSize: number;
  /** Rows of the embedding and of the head where more than `vocabSize`: those after it stand for no token. */
  readonly paddedVocabSize?: number;
  readonly ropeTheta: number;
  readonly ropeScaling?: Llama3RopeScaling;
  readonly normEps: number;
  readonly tieEmbeddings: boolean;
  /** Dtype of activations and GEMM operands; parameters are float32. */
  readonly dtype: "bfloat16" | "float16" | "float32";
}

/** A value for each parameter of a block. */
export interface LlamaBlock<Leaf> {
  /** [D] */
  readonly attnNorm: Leaf;
  /** [N·H, D] */
  readonly q: Leaf;
  /** [K·H, D] */
  readonly k: Leaf;
  /** [K·H, D] */
  readonly v: Leaf;
  /** [D, N·H] */
  readonly o: Leaf;
  /** [D] */
  readonly mlpNorm: Leaf;
  /** [F, D] */
  readonly gate: Leaf;
  /** [F, D] */
  readonly up: Leaf;
  /** [D, F] */
  readonly down: Leaf;
}

/** A value for each parameter of a model. */
export interface LlamaTree<Leaf> {
  /** [V, D] */
  readonly embed: Leaf;
  readonly layers: readonly LlamaBlock<Leaf>[];
  /** [D] */
  readonly norm: Leaf;
  /** [V, D]; absent where the embedding is the head. */
  readonly head?: Leaf;
}

/** Parameters as Tensors, float32. */
export type LlamaParams = LlamaTree<Tensor>;

/** The linear layers of a block, by the module names that precision policies use. */
export const llamaModules = ["attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up", "mlp.down"] as const;
export type LlamaModule = (typeof llamaModules)[number];

/** Taps of a block's linear layers (see `LinearTaps`), stacked in the order of `llamaModules`. */
export interface LayerTaps {
  /** float32 [modules, 3] */
  readonly scales?: Tensor;
  /** float32 [modules, 3, statistics] */
  readonly probe?: Tensor;
}

/** How a model is computed, beside its sizes. */
export interface LlamaOptions {
  readonly config: LlamaConfig;
  /** How each linear layer multiplies. */
  readonly precision: (module: LlamaModule, layer: number) => LinearPrecision;
  /** For stochastic rounding; recipes without it need none. */
  readonly random?: RandomKey;
  /** What a block keeps for the backward pass; absent: everything its reverse rules read. */
  readonly remat?: RematPolicy;
  /** Run layers of equal precision as a scan, which compiles faster and gives the same bits; default: unrolled. */
  readonly scanLayers?: boolean;
  /** For each layer: what its linear layers tell of their tensors, as cotangents of these arrays. */
  readonly taps?: readonly LayerTaps[];
  /**
   * int32 [B, T]: the document that each token is of, as runs of equal numbers. Tokens attend to those of their own run, and
   * positions count from its beginning. Absent: a row is one document.
   */
  readonly segments?: Tensor;
  /** Weight of the z-loss, log²(Σ exp(logits)) of each token that counts; default 0. */
  readonly zLoss?: number;
}

/** Shapes of every parameter. */
export function llamaShapes(config: LlamaConfig): LlamaTree<readonly number[]> {
  const { numLayers, embDim: D, mlpDim: F, numHeads, numKvHeads, headDim, tieEmbeddings } = config;
  const V = config.paddedVocabSize ?? config.vocabSize;
  const [q, kv] = [numHeads * headDim, numKvHeads * headDim];
  const block = {
    attnNorm: [D],
    q: [q, D],
    k: [kv, D],
    v: [kv, D],
    o: [D, q],
    mlpNorm: [D],
    gate: [F, D],
    up: [F, D],
    down: [D, F],
  };
  const layers = Array.from({ length: numLayers }, () => block);
  return { embed: [V, D], layers, norm: [D], ...(tieEmbeddings ? {} : { head: [V, D] }) };
}

/** The residual stream after the embedding and after each block, then the final norm: the last entry. Always unrolled. */
export function llamaStates(params: LlamaParams, tokens: Tensor, options: LlamaOptions): Tensor[] {
  const embedded = embedding(params, tokens, options);
  const states = [embedded, ...unrolledLayers(layersOf(params, options), embedded, blocksOf(tokens, options))];
  return [...states, finalNorm(states.at(-1)!, params, options)];
}

/** tokens [B, T] int32 → the hidden states that the head reads, [B, T, D] in the compute dtype. */
export function llamaHidden(params: LlamaParams, tokens: Tensor, options: LlamaOptions): Tensor {
  if (options.scanLayers !== true) return llamaStates(params, tokens, options).at(-1)!;
  const segments = llamaSegments(options);
  const begin = embedding(params, tokens, options);
  const x = scannedLayers(layersOf(params, options), begin, blocksOf(tokens, options), segments);
  return finalNorm(x, params, options);
}

/** The runs of blocks of equal precision, which scanned layers are scanned by. */
export function llamaSegments({ config, precision }: LlamaOptions): LayerSegment[] {
  return layerSegments(config.numLayers, (layer) => JSON.stringify(llamaModules.map((m) => precision(m, layer))));
}

/** The delayed scales of the linear layers, in the order of `llamaModules`; undefined where there are none. */
export function llamaDelayedScaling({
  config,
  precision,
}: Pick<LlamaOptions, "config" | "precision">): DelayedScaling | undefined {
  const layers = Array.from({ length: config.numLayers }, (_, layer) => llamaModules.map((m) => precision(m, layer)));
  return delayedScalingOf(layers);
}

const embedding = ({ embed }: LlamaParams, tokens: Tensor, { config }: LlamaOptions): Tensor =>
  namedScope("embed", () => take(embed, tokens).astype(config.dtype));

const finalNorm = (x: Tensor, { norm }: LlamaParams, { config }: LlamaOptions): Tensor =>
  namedScope("norm", () => rmsNorm(x, norm, config.normEps));

/** All that a block reads that is its own. */
interface LayerInput {
  readonly weights: LlamaBlock<Tensor>;
  readonly taps: LayerTaps;
}

const layersOf = ({ layers }: LlamaParams, { taps }: LlamaOptions): LayerInput[] =>
  layers.map((weights, layer) => ({ weights, taps: taps?.[layer] ?? {} }));

/** The block as a function, under the options' remat policy. */
function blocksOf(tokens: Tensor, options: LlamaOptions): LayerFunction<LayerInput> {
  const { headDim, ropeTheta: theta, ropeScaling: scaling } = options.config;
  const { segments } = options;
  const starts = segments && namedScope("segments", () => segmentStarts(segments));
  const tables = namedScope("rope", () =>
    ropeTables(starts ? segmentPositions(starts) : tokens.shape[1]!, { headDim, theta, ...(scaling && { scaling }) }),
  );
  return (input, x, place) => {
    const apply = ({ weights, taps }: LayerInput, x: Tensor) =>
      llamaBlock(weights, x, { place, taps, tables, ...(starts && { starts }), options });
    return (options.remat ? remat(apply, options.remat) : apply)(input, x);
  };
}

interface BlockContext {
  readonly place: LayerPlace;
  readonly taps: LayerTaps;
  readonly tables: RopeTables;
  /** int32 [B, T]: where each token's document begins. */
  readonly starts?: Tensor;
  readonly options: LlamaOptions;
}

function llamaBlock(block: LlamaBlock<Tensor>, x_BTD: Tensor, context: BlockContext): Tensor {
  const { normEps } = context.options.config;
  const normed = namedScope("attnNorm", () => rmsNorm(x_BTD, block.attnNorm, normEps));
  const attended = x_BTD.add(attentionHalf(block, normed, context));
  return attended.add(
    mlpHalf(
      block,
      namedScope("mlpNorm", () => rmsNorm(attended, block.mlpNorm, normEps)),
      context,
    ),
  );
}

function attentionHalf(block: LlamaBlock<Tensor>, x_BTD: Tensor, context: BlockContext): Tensor {
  const { numHeads: N, numKvHeads: K, headDim: H } = context.options.config;
  const [B, T] = x_BTD.shape as [number, number, number];
  const project = projector(context);
  const turned = (x: Tensor) => namedScope("attn", () => rope(x, context.tables));
  const q_BTNH = turned(project("attn.q", x_BTD, block.q).reshape([B, T, N, H]));
  const k_BTKH = turned(project("attn.k", x_BTD, block.k).reshape([B, T, K, H]));
  const v_BTKH = project("attn.v", x_BTD, block.v).reshape([B, T, K, H]);
  const { starts } = context;
  const heads = { q: q_BTNH, k: k_BTKH, v: v_BTKH, ...(starts && { starts }) };
  const mixed_BTNH = namedScope("attn", () => causalAttention(heads));
  return project("attn.o", mixed_BTNH.reshape([B, T, N * H]), block.o);
}

function mlpHalf(block: LlamaBlock<Tensor>, x_BTD: Tensor, context: BlockContext): Tensor {
  const project = projector(context);
  const [gate_BTF, up_BTF] = [project("mlp.gate", x_BTD, block.gate), project("mlp.up", x_BTD, block.up)];
  const hidden_BTF = namedScope("mlp", () => swiglu(gate_BTF, up_BTF));
  return project("mlp.down", hidden_BTF, block.down);
}

/** What remat policies call the results of the linear layers: MaxText's names. */
const checkpointNames: Readonly<Record<LlamaModule, string>> = {
  "attn.q": "query_proj",
  "attn.k": "key_proj",
  "attn.v": "value_proj",
  "attn.o": "out_proj",
  "mlp.gate": "mlpwi_0",
  "mlp.up": "mlpwi_1",
  "mlp.down": "mlpwo",
};

/** `linear` at a module of a layer, under its precision. */
function projector({ place: { layer, like }, taps, options: { precision, random } }: BlockContext) {
  return (module: LlamaModule, x: Tensor, w: Tensor): Tensor => {
    const site = { module, layer, precision: precision(module, like), taps: tapsOf(taps, module) };
    const y = linear(x, w, { ...site, ...(random && { random }) });
    return checkpointName(y, checkpointNames[module]);
  };
}

function tapsOf({ scales, probe }: LayerTaps, module: LlamaModule): LinearTaps {
  const at = (tap: Tensor) => tap.at(0, llamaModules.indexOf(module));
  return { ...(scales && { scales: at(scales) }), ...(probe && { probe: at(probe) }) };
}

/** The head [V, D], or the embedding where they are tied, without rows of padding. */
export function tokenRows({ head, embed }: LlamaParams, { vocabSize }: LlamaConfig): Tensor {
  const rows = head ?? embed;
  return rows.shape[0] === vocabSize ? rows : rows.narrow(0, 0, vocabSize);
}

/** tokens [B, T] int32 → float32 logits [B, T, V]. The head multiplies in the compute dtype. */
export function llamaLogits(params: LlamaParams, tokens: Tensor, options: LlamaOptions): Tensor {
  const hidden = llamaHidden(params, tokens, options);
  return namedScope("head", () => {
    const head = tokenRows(params, options.config).astype(options.config.dtype);
    return inPass("fprop", () => dot(hidden, head, { contract: [[2], [1]], out: "float32" }));
  });
}

/** Tokens, what they are to predict, and what counts. */
export interface LlamaBatch {
  /** [B, T] int32 */
  readonly tokens: Tensor;
  /** [B, T] int32: the token to predict at each position. */
  readonly targets: Tensor;
  /** [B, T] float32: 1 where the prediction counts. */
  readonly weights: Tensor;
  /** As `LlamaOptions.segments`. */
  readonly segments?: Tensor;
}

/** The loss and what it is made of, float32; scalars where nothing else is said. */
export interface LlamaLoss {
  /** Σ weight · (nll + z-loss) / Σ weight in nats; 0 where nothing counts. */
  readonly loss: Tensor;
  readonly lossSum: Tensor;
  readonly totalWeight: Tensor;
  /** What each sequence adds to `lossSum`, [B]. */
  readonly sequenceLosses: Tensor;
}

/** Masked next-token loss: the sum over tokens that count, divided by their number. */
export function llamaLoss(
  params: LlamaParams,
  { tokens, targets, weights, segments }: LlamaBatch,
  options: LlamaOptions,
): LlamaLoss {
  const { config, zLoss = 0 } = options;
  const hidden = llamaHidden(params, tokens, { ...options, ...(segments && { segments }) }).reshape([
    -1,
    config.embDim,
  ]);
  const head = params.head ?? params.embed;
  return namedScope("head", () => {
    const rows = { targets: targets.reshape([-1]), weights: weights.reshape([-1]) };
    const { losses, ...sums } = crossEntropy({ hidden, head, ...rows, zLoss, vocabSize: config.vocabSize });
    const sequenceLosses = losses.reshape(tokens.shape).sum(1);
    return { loss: sums.lossSum.div(sums.totalWeight.max(1)), ...sums, sequenceLosses };
  });
}
