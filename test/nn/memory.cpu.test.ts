/** Attention and loss at lengths where a whole score matrix, or whole logits, would show in XLA's plan of temporary memory. */
import { expect, it } from "vitest";
import { vjp } from "../../src/autodiff/index.ts";
import { full, type Spec, spec, type Tensor } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { causalAttention, crossEntropy } from "../../src/nn/index.ts";

async function temporaryBytes(f: (...args: Tensor[]) => unknown, specs: readonly Spec[]): Promise<number> {
  const compiled = jit(f);
  const { temporaryBytes } = (await compiled.compile(...specs)).memoryStats();
  compiled.dispose();
  return temporaryBytes;
}

it("attention over 2,048 positions never holds [B, N, T, T], forward or backward", async () => {
  const [B, T, N, K, H] = [2, 2048, 8, 4, 64];
  const attend = (q: Tensor, k: Tensor, v: Tensor) => causalAttention({ q, k, v });
  const backward = (q: Tensor, k: Tensor, v: Tensor, ct: Tensor) => vjp(attend, q, k, v).pullback(ct);
  const inputs = [N, K, K, N].map((heads) => spec([B, T, heads, H], "bfloat16"));
  // Scores in bfloat16, the narrowest they are, would be twice this.
  const half = (B * N * T * T * 2) / 2;
  expect(await temporaryBytes(attend as never, inputs.slice(0, 3))).toBeLessThan(half);
  expect(await temporaryBytes(backward as never, inputs)).toBeLessThan(half);
}, 120_000);

it("nor does attention within segments, whose masks are made where they are read", async () => {
  const [B, T, N, K, H] = [2, 2048, 8, 4, 64];
  const attend = (starts?: Tensor) => (q: Tensor, k: Tensor, v: Tensor) =>
    causalAttention({ q, k, v, ...(starts && { starts }) });
  type Inputs = [q: Tensor, k: Tensor, v: Tensor, ct: Tensor, starts: Tensor];
  const backward = (...[q, k, v, ct, starts]: Inputs) => vjp(attend(starts), q, k, v).pullback(ct);
  const plain = (...[q, k, v, ct]: Inputs) => vjp(attend(), q, k, v).pullback(ct);
  const inputs = [...[N, K, K, N].map((heads) => spec([B, T, heads, H], "bfloat16")), spec([B, T], "int32")];
  const [bytes, plainBytes] = [
    await temporaryBytes(backward as never, inputs),
    await temporaryBytes(plain as never, inputs.slice(0, 4)),
  ];
  // The starts by heads and little else.
  expect(bytes).toBeLessThan(plainBytes + 4 * B * N * T * 4);
}, 120_000);

it("the loss of 8,192 tokens never holds more logits than a chunk, forward or backward", async () => {
  const [M, D, V] = [8192, 64, 16384];
  const loss = (hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) =>
    crossEntropy({ hidden, head, targets, weights, zLoss: 1e-4 }).lossSum;
  const backward = (hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) => {
    const ofWeights = (hidden: Tensor, head: Tensor) => loss(hidden, head, targets, weights);
    return vjp(ofWeights, hidden, head).pullback(full([], 1, "float32"));
  };
  const inputs = [spec([M, D], "bfloat16"), spec([V, D], "float32"), spec([M], "int32"), spec([M], "float32")];
  // A chunk's logits are 64 MB, all of them 512.
  const half = (M * V * 4) / 2;
  expect(await temporaryBytes(loss as never, inputs)).toBeLessThan(half);
  expect(await temporaryBytes(backward as never, inputs)).toBeLessThan(half);
}, 120_000);
