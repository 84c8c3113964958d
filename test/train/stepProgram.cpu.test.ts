/** A step at every stage: its contractions against closed formulas, its listing against what is compiled. */
import { describe, expect, it } from "vitest";
import { scan, valueAndGrad } from "../../src/autodiff/index.ts";
import { byteLength, hostArray, type Spec, type Tensor, treeLeaves } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { countOperations, filterOperations, type ListedOperation } from "../../src/lower/index.ts";
import { matmulParameters } from "../../src/metrics/index.ts";
import { linear, nvfp4 } from "../../src/quant/index.ts";
import type { RunPlan } from "../../src/train/plan.ts";
import { listStage, stepSpecs } from "../../src/train/stepProgram.ts";
import { tinyModel, tinyPlan } from "./tinyRun.ts";

/** FLOPs of the contractions by pass, all formats together. */
function flopsByPass(operations: readonly ListedOperation[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { pass, flops } of countOperations(operations).gemms) sums[pass] = (sums[pass] ?? 0) + flops;
  return sums;
}

const tokensOf = (plan: RunPlan) => plan.microBatches * plan.batchSize * plan.sequenceLength;
/** Of one GEMM of every linear layer and of the head. */
const linearFlops = (plan: RunPlan) => 2 * matmulParameters(plan.model) * tokensOf(plan);
/** Of one contraction of attention's scores or values; sequences here are one tile, which is not halved by the mask. */
const attentionFlops = ({ model, ...plan }: RunPlan) =>
  2 * model.numLayers * tokensOf({ model, ...plan }) * plan.sequenceLength * model.numHeads * model.headDim;

describe("FLOPs of a Llama's step", () => {
  it.each(["bf16", "nvfp4"])("are those of the formulas, %s", async (recipe) => {
    const plan = tinyPlan({}, recipe);
    const gemm = linearFlops(plan);
    const forward = flopsByPass((await listStage(plan, "trace")).operations);
    // The loss forms the head's gradient with itself; without a backward pass it is no part of the program.
    expect(forward).toEqual({ fprop: gemm, forward: 2 * attentionFlops(plan) });
    const { "wgrad.quantize": rotation, ...step } = flopsByPass((await listStage(plan, "grad")).operations);
    const attention = attentionFlops(plan);
    expect(step).toEqual({ fprop: gemm, dgrad: gemm, wgrad: gemm, forward: 2 * attention, backward: 5 * attention });
    expect(rotation === undefined).toBe(recipe === "bf16");
  });

  it("of quantized layers are told apart", async () => {
    const plan = tinyPlan({}, "nvfp4");
    const { operations } = await listStage(plan, "grad");
    // Of two blocks the second stays in BF16.
    const block = matmulParameters({ ...plan.model, numLayers: 1 }) - plan.model.embDim * plan.model.vocabSize;
    const quantized = countOperations(operations).gemms.filter(({ format }) => format === "NVFP4 (emulated)");
    expect(quantized.map(({ pass, calls, flops }) => ({ pass, calls, flops }))).toEqual(
      ["fprop", "dgrad", "wgrad"].map((pass) => ({ pass, calls: 7, flops: 2 * block * tokensOf(plan) })),
    );
    expect(flopsByPass(filterOperations(operations, { layer: "1", op: "dot" })).fprop).toBe(2 * block * tokensOf(plan));
  });

  it("count a loop's body as often as it runs", async () => {
    const plan = tinyPlan({ microBatches: 3 });
    for (const stage of ["grad", "stablehlo"] as const) {
      const { fprop, dgrad, wgrad } = flopsByPass((await listStage(plan, stage)).operations);
      expect([stage, fprop, dgrad, wgrad]).toEqual([stage, ...Array(3).fill(linearFlops(plan))]);
    }
  });

  it("of layers in a loop are those of each layer, which a filter finds by its number", async () => {
    const plan = tinyPlan({ scanLayers: true });
    const { operations } = await listStage(plan, "grad");
    const { fprop, dgrad, wgrad } = flopsByPass(operations);
    expect([fprop, dgrad, wgrad]).toEqual(Array(3).fill(linearFlops(plan)));
    const [looped] = filterOperations(operations, { layer: "1.mlp.up:fprop", op: "dot" });
    expect(looped).toMatchObject({ repeats: 2, scope: { path: "layers.0-1.mlp.up" } });
    expect(filterOperations(operations, { layer: "2" })).toEqual([]);
  });

  it("are the same where documents are kept apart, which is told as a layer of its own", async () => {
    const plan = tinyPlan({ batchForm: { masked: true, segmented: true } });
    const { operations } = await listStage(plan, "grad");
    const gemm = linearFlops(plan);
    expect(flopsByPass(operations)).toMatchObject({ fprop: gemm, dgrad: gemm, wgrad: gemm });
    expect(filterOperations(operations, { layer: "segments" }).length).toBeGreaterThan(0);
    expect(filterOperations((await listStage(tinyPlan(), "grad")).operations, { layer: "segments" })).toEqual([]);
    const [, batch] = stepSpecs(plan);
    expect(Object.keys(batch)).toEqual(["tokens", "targets", "weights", "segments"]);
  });

  it("recomputed for the backward pass are told apart", async () => {
    const { recompute, fprop } = flopsByPass((await listStage(tinyPlan({ remat: {} }), "grad")).operations);
    expect(fprop).toBe(linearFlops(tinyPlan()));
    // The blocks again, without the projection that nothing reads: down's and o's results are only added.
    expect(recompute).toBeGreaterThan(0.5 * linearFlops(tinyPlan()));
  });

  it("are the same in StableHLO and in the optimized program, which says what memory it takes", async () => {
    const plan = tinyPlan({ model: { ...tinyModel, numLayers: 1 } });
    const gemm = linearFlops(plan);
    const { operations: emitted } = await listStage(plan, "stablehlo");
    expect(flopsByPass(emitted)).toMatchObject({ fprop: gemm, dgrad: gemm, wgrad: gemm });
    const { operations: optimized, memory } = await listStage(plan, "hlo");
    expect(flopsByPass(optimized)).toMatchObject({ fprop: gemm, dgrad: gemm, wgrad: gemm });
    const bytes = treeLeaves<Spec>(stepSpecs(plan)).reduce((sum, x) => sum + byteLength(x), 0);
    expect(memory!.argumentBytes).toBe(bytes);
    expect(memory!.aliasBytes).toBe(bytes - 2 * tokensOf(plan) * 4 - 8);
    // Fusions keep a layer, and the optimizer is found by its name.
    expect(filterOperations(optimized, { layer: "optimizer", op: "fusion" }).length).toBeGreaterThan(5);
    const homeless = optimized.filter(({ op, scope, free }) => op === "fusion" && !free && scope.path === "");
    expect(homeless.length).toBeLessThan(0.1 * optimized.filter(({ op, free }) => op === "fusion" && !free).length);
  });
});

describe("a listing", () => {
  /** A quantized layer, applied in a loop, and its gradient. */
  const layer = ({ w, xs }: { w: Tensor; xs: Tensor }) =>
    valueAndGrad((w: Tensor) => {
      // Its own in each trace: draws of one key share their constants.
      const random = { seed: 1, step: 2, microBatch: 0 };
      const step = (h: Tensor, x: Tensor) => {
        const next = linear(h.add(x), w, { module: "rec", layer: 0, precision: nvfp4(), random }).tanh();
        return { carry: next, y: next.sum() };
      };
      return scan(step, xs.at(0, 0), xs).ys.sum();
    })(w);
  const wave = (...shape: number[]) =>
    hostArray(
      shape,
      "float32",
      Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i * i)),
    );
  const args = { w: wave(32, 32), xs: wave(5, 16, 32) };

  it("changes no operation of the text, and no bit of what is computed", async () => {
    const listing: ListedOperation[] = [];
    const [plain, listed] = [jit(layer), jit(layer, { listing })];
    const { stablehlo } = await listed.lower(args);
    expect(listing.some(({ repeats, scope }) => repeats === 5 && scope.pass === "wgrad")).toBe(true);
    const bare = stablehlo
      .replace(/ loc\("[^"]*"\)/g, "")
      .replaceAll("%w", "%arg0")
      .replaceAll("%xs", "%arg1");
    expect(bare).toBe((await plain.lower(args)).stablehlo);
    const [a, b] = [await plain(args), await listed(args)];
    expect((await b.value.toHost()).data).toEqual((await a.value.toHost()).data);
    expect((await b.grad.toHost()).data).toEqual((await a.grad.toHost()).data);
    plain.dispose();
    listed.dispose();
  });
});
