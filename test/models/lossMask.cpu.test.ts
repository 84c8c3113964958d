/** What the loss counts: masks, padding, micro-batches. */
import { afterAll, describe, expect, it } from "vitest";
import { valueAndGrad } from "../../src/autodiff/index.ts";
import type { HostArray } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { type LlamaBatch, type LlamaParams, type LlamaTree, llamaLogits, llamaLoss } from "../../src/models/llama.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { type Batch, byHfName, goldenLlama, makeBatch, relativeNorm, scalarOf } from "./goldenLlama.ts";

const { params, options, golden } = await goldenLlama("llama_b_tied_plainrope");

interface Sums {
  loss: HostArray;
  lossSum: HostArray;
  totalWeight: HostArray;
  /** Of `lossSum`. */
  grad: LlamaTree<HostArray>;
}

const sums = jit((params: LlamaParams, batch: LlamaBatch) => {
  const f = (p: LlamaParams) => {
    const { lossSum, ...rest } = llamaLoss(p, batch, options);
    return { value: lossSum, aux: rest };
  };
  const { value: lossSum, aux, grad } = valueAndGrad(f, { aux: true })(params);
  return { ...aux, lossSum, grad };
});
const logits = jit((params: LlamaParams, tokens: LlamaBatch["tokens"]) => llamaLogits(params, tokens, options));
const lossOf = (batch: Batch) => fetchAndFree<Sums>(sums(params as never, batch as never));
const logitsOf = async (tokens: HostArray) =>
  (await fetchAndFree(logits(params as never, tokens as never))).data as Float32Array;
afterAll(() => {
  sums.dispose();
  logits.dispose();
});

/** `rows` rows of pseudo-random ids. */
const ids = (rows: number, length: number, seed = 1): number[][] =>
  Array.from({ length: rows }, (_, r) =>
    Array.from({ length }, (_, i) => (seed * 7919 + r * 104729 + i * i * 31) % 256),
  );

/** Labels that count at the last `valid` positions of the rows taken together. */
const lastOnly = (rows: number[][], valid: number): number[][] => {
  const length = rows[0]!.length;
  const perRow = valid / rows.length;
  return rows.map((row) => row.map((id, i) => (i >= length - perRow ? id : -100)));
};

describe("masked loss", () => {
  it("micro-batches of 2 and 300 tokens weigh by tokens: sums over sums is the whole batch", async () => {
    const [few, many] = [ids(2, 151, 1), ids(2, 151, 2)];
    const [fewLabels, manyLabels] = [lastOnly(few, 2), many];
    const [a, b] = [await lossOf(makeBatch(few, fewLabels)), await lossOf(makeBatch(many, manyLabels))];
    const whole = await lossOf(makeBatch([...few, ...many], [...fewLabels, ...manyLabels]));
    expect([scalarOf(a.totalWeight), scalarOf(b.totalWeight), scalarOf(whole.totalWeight)]).toEqual([2, 300, 302]);
    const total = (scalarOf(a.lossSum) + scalarOf(b.lossSum)) / 302;
    expect(Math.abs(total / scalarOf(whole.loss) - 1)).toBeLessThan(1e-6);
    // The mean of the means is another number: the test would notice.
    expect(Math.abs((scalarOf(a.loss) + scalarOf(b.loss)) / 2 / scalarOf(whole.loss) - 1)).toBeGreaterThan(1e-4);
    const [ga, gb] = [byHfName(a.grad), byHfName(b.grad)];
    for (const [name, gradient] of byHfName(whole.grad)) {
      const sum = ga.get(name)!.map((x, i) => x + gb.get(name)![i]!);
      expect(relativeNorm(sum, gradient), name).toBeLessThan(2e-6);
    }
  });

  it("B5: padding does not count: 5 tokens padded to 128 have the loss of the 5 alone", async () => {
    const document = ids(1, 5)[0]!;
    const pad = (value: number) => [[...document, ...Array<number>(123).fill(value)]];
    const alone = await lossOf(makeBatch([document]));
    const padded = await lossOf(makeBatch(pad(0), pad(-100)));
    expect(scalarOf(padded.totalWeight)).toBe(4);
    expect(Math.abs(scalarOf(padded.loss) / scalarOf(alone.loss) - 1)).toBeLessThan(1e-6);
    for (const [name, gradient] of byHfName(padded.grad)) {
      expect(relativeNorm(gradient, byHfName(alone.grad).get(name)!), name).toBeLessThan(5e-6);
    }
  });

  it("a batch in which nothing counts has loss 0, weight 0 and zero gradients", async () => {
    const rows = ids(2, 32);
    const { loss, lossSum, totalWeight, grad } = await lossOf(
      makeBatch(
        rows,
        rows.map((row) => row.map(() => -100)),
      ),
    );
    expect([loss, lossSum, totalWeight].map(scalarOf)).toEqual([0, 0, 0]);
    for (const [name, gradient] of byHfName(grad))
      expect(
        gradient.every((x) => x === 0),
        name,
      ).toBe(true);
  });

  it("a position sees nothing after it: later tokens change no bit of earlier logits", async () => {
    const rows = ids(2, 32);
    const changed = rows.map((row) => row.map((id, i) => (i < 20 ? id : (id + 1) % 256)));
    const [a, b] = [await logitsOf(makeBatch(rows).tokens), await logitsOf(makeBatch(changed).tokens)];
    for (const row of [0, 1]) {
      const at = (x: Float32Array, from: number, to: number) => x.slice((row * 32 + from) * 256, (row * 32 + to) * 256);
      expect(at(b, 0, 20)).toEqual(at(a, 0, 20));
      expect(at(b, 20, 21)).not.toEqual(at(a, 20, 21));
    }
  });

  it("in bfloat16 the loss is that of float32 to within rounding", async () => {
    const low = { ...options, config: { ...options.config, dtype: "bfloat16" as const } };
    const loss = jit((params: LlamaParams, batch: LlamaBatch) => llamaLoss(params, batch, low).loss);
    const rows = Array.from({ length: 2 }, (_, r) => Array.from(golden.values("input_ids").slice(r * 32, r * 32 + 32)));
    const got = scalarOf(await fetchAndFree(loss(params as never, makeBatch(rows) as never)));
    expect(Math.abs(got / golden.scalar("loss") - 1)).toBeLessThan(5e-3);
    expect(got).not.toBe(golden.scalar("loss"));
  });
});
