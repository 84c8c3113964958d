/**
 * A model's logits computed on the host in plain TypeScript, a part of a matrix at a time, straight from stored tensors. Nothing
 * of it is shared with the compiled model, and it takes rotary positions in both orders, so that it can tell whether a
 * conversion kept what a model computes.
 *
 * Dims: T tokens, D model, N query heads, K key heads, H head dim, F mlp, V vocabulary.
 */
import { decodeArray } from "../core/codecs.ts";
import type { LlamaConfig } from "../models/llama.ts";
import { ropeFrequencies } from "../nn/rope.ts";
import { partsOf, type SourceTensors } from "./source.ts";

export interface ReferenceOptions {
  readonly config: LlamaConfig;
  readonly tokens: readonly number[];
  /** Whether the two values of a head that turn together are neighbours; else they are half a head apart. */
  readonly paired: boolean;
  /** Called before each layer. @throws to stop */
  readonly onLayer?: () => void;
}

/** Rows of activations, one a token. */
type Rows = readonly Float64Array[];

/** float64 logits [T][V]; @throws what reading tensors throws */
export async function referenceLogits(tensors: SourceTensors, options: ReferenceOptions): Promise<Rows> {
  const { config, tokens } = options;
  const { numLayers, normEps, vocabSize, embDim: D, tieEmbeddings } = config;
  const matrix = (name: string) => tensors.get(`${name}.weight`)!;
  const times = (x: Rows, name: string, rows: number) => product(x, matrix(name), rows);
  const norm = async (x: Rows, name: string) => normed(x, await vector(matrix(name)), normEps);

  let x: Rows = await Promise.all(tokens.map((token) => embeddingRow(matrix("model.embed_tokens"), token, D)));
  for (let layer = 0; layer < numLayers; layer++) {
    options.onLayer?.();
    const at = (name: string) => `model.layers.${layer}.${name}`;
    const { numHeads: N, numKvHeads: K, headDim: H, mlpDim: F } = config;
    const input = await norm(x, at("input_layernorm"));
    const q = turned(await times(input, at("self_attn.q_proj"), N * H), options);
    const k = turned(await times(input, at("self_attn.k_proj"), K * H), options);
    const v = await times(input, at("self_attn.v_proj"), K * H);
    x = sum(x, await times(attended(q, k, v, config), at("self_attn.o_proj"), D));
    const middle = await norm(x, at("post_attention_layernorm"));
    const [gate, up] = [await times(middle, at("mlp.gate_proj"), F), await times(middle, at("mlp.up_proj"), F)];
    const hidden = gate.map((row, t) => row.map((g, i) => (g / (1 + Math.exp(-g))) * up[t]![i]!));
    x = sum(x, await times(hidden, at("mlp.down_proj"), D));
  }
  return times(await norm(x, "model.norm"), tieEmbeddings ? "model.embed_tokens" : "lm_head", vocabSize);
}

type Tensor = NonNullable<ReturnType<SourceTensors["get"]>>;

const sum = (a: Rows, b: Rows): Rows => a.map((row, t) => row.map((value, i) => value + b[t]![i]!));

async function vector(tensor: Tensor): Promise<ArrayLike<number>> {
  const { dtype, data } = await tensor.readPart(0, tensor.shape[0]!);
  return decodeArray(dtype, data);
}

async function embeddingRow(tensor: Tensor, token: number, dim: number): Promise<Float64Array> {
  const { dtype, data } = await tensor.readPart(token * dim, dim);
  return Float64Array.from(decodeArray(dtype, data));
}

/** x [T][in] times the first `rows` rows of a matrix [out, in]. */
async function product(x: Rows, tensor: Tensor, rows: number): Promise<Rows> {
  const inner = tensor.shape[1]!;
  const y = x.map(() => new Float64Array(rows));
  // Whole rows: a row of most types is a multiple of its unit, and a head's rows are.
  const whole = { ...tensor, unit: lowestMultiple(tensor.unit, inner) };
  for await (const part of partsOf(whole, rows * inner)) {
    const w = decodeArray(part.dtype, part.data);
    for (let at = 0, row = part.begin / inner; at < w.length; at += inner, row++) {
      for (const [t, input] of x.entries()) y[t]![row] = dot(input, w, at);
    }
  }
  return y;
}

const lowestMultiple = (unit: number, row: number): number => (row % unit === 0 ? row : unit);

function dot(x: Float64Array, w: ArrayLike<number>, at: number): number {
  let [a, b, c, d] = [0, 0, 0, 0];
  const fours = x.length & ~3;
  for (let i = 0; i < fours; i += 4) {
    a += x[i]! * w[at + i]!;
    b += x[i + 1]! * w[at + i + 1]!;
    c += x[i + 2]! * w[at + i + 2]!;
    d += x[i + 3]! * w[at + i + 3]!;
  }
  for (let i = fours; i < x.length; i++) a += x[i]! * w[at + i]!;
  return a + b + (c + d);
}

function normed(x: Rows, weight: ArrayLike<number>, eps: number): Rows {
  return x.map((row) => {
    const scale = 1 / Math.sqrt(row.reduce((squares, value) => squares + value * value, 0) / row.length + eps);
    return row.map((value, i) => value * scale * weight[i]!);
  });
}

/** Rotary positions, on every head of each token's row. */
function turned(x: Rows, { config, paired }: ReferenceOptions): Rows {
  const { headDim, ropeTheta: theta, ropeScaling: scaling } = config;
  const frequencies = ropeFrequencies({ headDim, theta, ...(scaling && { scaling }) });
  return x.map((row, position) => {
    const out = Float64Array.from(row);
    for (let head = 0; head < row.length; head += headDim) {
      for (const [i, frequency] of frequencies.entries()) {
        const first = head + (paired ? 2 * i : i);
        const second = first + (paired ? 1 : headDim / 2);
        const [cos, sin] = [Math.cos(position * frequency), Math.sin(position * frequency)];
        out[first] = row[first]! * cos - row[second]! * sin;
        out[second] = row[second]! * cos + row[first]! * sin;
      }
    }
    return out;
  });
}

function attended(q: Rows, k: Rows, v: Rows, { numHeads: N, numKvHeads: K, headDim: H }: LlamaConfig): Rows {
  return q.map((row, t) => {
    const out = new Float64Array(N * H);
    for (let head = 0; head < N; head++) {
      const shared = Math.floor((head * K) / N) * H;
      const query = row.subarray(head * H, (head + 1) * H);
      const scores = k.slice(0, t + 1).map((keys) => dot(query, keys, shared) / Math.sqrt(H));
      const highest = Math.max(...scores);
      const weights = scores.map((score) => Math.exp(score - highest));
      const total = weights.reduce((a, b) => a + b, 0);
      for (const [s, weight] of weights.entries()) {
        for (let i = 0; i < H; i++) out[head * H + i]! += (weight / total) * v[s]![shared + i]!;
      }
    }
    return out;
  });
}
