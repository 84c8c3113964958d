/** Telemetry of the numbers: true to the tensors of the step, and without a trace in it. */
import { describe, expect, it } from "vitest";
import { roundTo } from "../../src/core/codecs.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import type { RunEvent, SiteRecord } from "../../src/metrics/index.ts";
import { type LlamaParams, llamaStates } from "../../src/models/llama.ts";
import { rmsNorm } from "../../src/nn/index.ts";
import { recipeByName, resolvePrecision } from "../../src/quant/index.ts";
import { makeNumerics, siteRecords, siteStatisticsOf } from "../../src/train/numerics.ts";
import type { RunPlan } from "../../src/train/plan.ts";
import { runTraining } from "../../src/train/run.ts";
import { initialState } from "../../src/train/state.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { interpreted, numbers } from "../quant/bothWays.ts";
import { ofType, stateHashes } from "./runFiles.ts";
import { tinyModel, tinyPlan, tinyRun } from "./tinyRun.ts";

const nvfp4Plan = (changes: Partial<RunPlan> = {}): RunPlan => {
  const { numLayers } = changes.model ?? tinyModel;
  const precision = resolvePrecision({ recipe: recipeByName("nvfp4"), numLayers, lastLayersBf16: 0 });
  return tinyPlan({ precision, ...changes });
};

async function runOf(plan: RunPlan): Promise<{ events: RunEvent[]; folder: string }> {
  const events: RunEvent[] = [];
  const input = tinyRun(temporaryFolder(), plan, events);
  await runTraining(input);
  return { events, folder: input.folder.path };
}

const at = (sites: readonly SiteRecord[], layer: number, module: string, tensor: string): SiteRecord =>
  sites.find((site) => site.layer === layer && site.module === module && site.tensor === tensor)!;

/** NVFP4 as its formulas say, one number after the other: statistics of a matrix in blocks of 1×16 or 16×16. */
function plainStatistics(values: ArrayLike<number>, [M, N]: readonly number[], tile: number) {
  const f = Math.fround;
  const all = Array.from(values);
  const A = Math.max(...all.map(Math.abs));
  const S = f(2688 / A);
  let [signal, noise, underflow, saturated] = [0, 0, 0, 0];
  for (let i = 0; i < M!; i += tile) {
    for (let j = 0; j < N!; j += 16) {
      const block: number[] = [];
      for (let r = i; r < Math.min(M!, i + tile); r++)
        block.push(...all.slice(r * N! + j, r * N! + Math.min(N!, j + 16)));
      const a = Math.max(...block.map(Math.abs));
      const s = roundTo("float8_e4m3fn", Math.min(448, f(a * f(S * f(1 / 6)))));
      const e = Math.min(f(1 / f(s * f(1 / S))), 3.4028234663852886e38);
      for (const x of block) {
        const scaled = f(x * e);
        const q = roundTo("float4_e2m1fn", Math.max(-6, Math.min(6, scaled)));
        const decoded = (q * s * A) / 2688;
        signal += x * x;
        noise += (decoded - x) ** 2;
        if (x !== 0 && q === 0) underflow++;
        if (Math.abs(q) === 6 && Math.abs(x) > Math.abs(decoded)) saturated++;
      }
    }
  }
  const percent = (count: number) => (100 * count) / all.length;
  return {
    amax: A,
    tensorScale: S,
    snrDb: 10 * Math.log10(signal / noise),
    underflowPercent: percent(underflow),
    saturatedPercent: percent(saturated),
  };
}

const bfloat16 = (array: HostArray) => Float32Array.from(numbers(array), (x) => roundTo("bfloat16", x));

describe("numerics", () => {
  it("leave every bit of a run as it is, and tell of each site and each gradient", { timeout: 300_000 }, async () => {
    const model = { ...tinyModel, numLayers: 1 };
    const changes = { model, steps: 3, checkpoints: { period: 3 }, microBatches: 2, batchSize: 2 };
    const without = await runOf(nvfp4Plan(changes));
    const measured = await runOf(nvfp4Plan({ ...changes, telemetry: { period: 2, gradientCosine: true } }));
    expect(stateHashes(measured.folder, 3)).toEqual(stateHashes(without.folder, 3));
    const losses = ({ events }: { events: RunEvent[] }) =>
      ofType(events, "step").map(({ loss, gradNorm }) => [loss, gradNorm]);
    expect(losses(measured)).toEqual(losses(without));

    const records = ofType(measured.events, "numerics");
    expect(records.map(({ step }) => step)).toEqual([2, 3]);
    const { sites, gradients } = records[0]!;
    expect(sites).toHaveLength(7 * 3);
    for (const site of sites) {
      expect(site.format).toBe("nvfp4");
      expect(site.snrDb).toBeGreaterThan(10);
      expect(site.snrDb).toBeLessThan(30);
      expect(site.tensorScale! * site.amax).toBeCloseTo(2688, 1);
    }
    expect(gradients!.map(({ tensor }) => tensor)).toContain("layers.0.down");
    for (const { cosine, normRatio } of gradients!) {
      expect(cosine).toBeGreaterThan(0.8);
      expect(cosine).toBeLessThan(1);
      expect(normRatio).toBeGreaterThan(0.8);
      expect(normRatio).toBeLessThan(1.25);
    }
    // The program is told of, with its memory.
    expect(ofType(measured.events, "compile").map(({ program }) => program)).toEqual([
      "train_step",
      "numerics",
      "gradient_cosine",
    ]);
  });

  it("are those of the real activations and weights in plain numbers, compiled and interpreted", {
    timeout: 300_000,
  }, async () => {
    const plan = nvfp4Plan({ telemetry: { period: 1, gradientCosine: false } });
    const { data } = tinyRun("", plan);
    const batch = data.train.batchAt(1);
    const { params } = initialState(tinyModel, 3);
    const step = hostArray([], "uint32", Uint32Array.of(1));
    const model = {
      config: tinyModel,
      precision: plan.precision.precision,
      random: { seed: 0, step: 1, microBatch: 0 },
    };
    const numerics = makeNumerics(plan)!;
    const compiled = await numerics.measure({ params } as never, batch, 1).finally(() => numerics.dispose());

    const input = {
      batch: {
        tokens: batch.tokens,
        targets: batch.targets,
        weights: hostArray([4, 32], "float32", new Float32Array(128).fill(1)),
      },
      step,
      divisor: hostArray([], "float32", Float32Array.of(128)),
    };
    const [values] = interpreted(siteStatisticsOf(model, 0), params, input);
    const asInterpreted = siteRecords(values!.data as Float32Array, plan);

    const [normed, ...rest] = interpreted(
      (params: LlamaParams, tokens: Tensor) => {
        const states = llamaStates(params, tokens, model);
        return [0, 1].map((layer) => rmsNorm(states[layer]!, params.layers[layer]!.attnNorm, tinyModel.normEps));
      },
      params,
      batch.tokens,
    );
    [normed!, rest[0]!].forEach((x, layer) => {
      const wanted = plainStatistics(numbers(x), [128, 32], 1);
      const weight = plainStatistics(bfloat16(params.layers[layer]!.down), [32, 48], 16);
      for (const sites of [compiled.sites, asInterpreted]) {
        // Compiled activations differ in the last bit of bfloat16 here and there.
        for (const [found, plain, digits] of [
          [at(sites, layer, "attn.q", "x"), wanted, 0],
          [at(sites, layer, "mlp.down", "w"), weight, 3],
        ] as const) {
          expect(found.amax / plain.amax).toBeCloseTo(1, 2);
          expect(found.snrDb).toBeCloseTo(plain.snrDb, digits);
          expect(found.underflowPercent).toBeCloseTo(plain.underflowPercent, digits === 0 ? 0 : 3);
          expect(found.saturatedPercent).toBeCloseTo(plain.saturatedPercent, digits === 0 ? 0 : 3);
        }
      }
      const dy = [compiled.sites, asInterpreted].map((sites) => at(sites, layer, "mlp.down", "dy"));
      expect(dy[0]!.amax / dy[1]!.amax).toBeCloseTo(1, 1);
      expect(dy[0]!.snrDb).toBeCloseTo(dy[1]!.snrDb!, 0);
    });
  });

  it("tell the loss scale of float16, and where what is not finite began", { timeout: 300_000 }, async () => {
    const lossScale = { initial: 1024, minimum: 1, growthFactor: 2, backoffFactor: 0.5, growthInterval: 2000 };
    const plan = tinyPlan({
      model: { ...tinyModel, dtype: "float16" },
      lossScale,
      steps: 2,
      microBatches: 2,
      batchSize: 2,
      telemetry: { period: 2, gradientCosine: true },
    });
    const { events } = await runOf(plan);
    const [record] = ofType(events, "numerics");
    expect(record).toMatchObject({ step: 2, lossScale: 1024 });
    // Nothing is quantized, so there is nothing to compare.
    expect(record!.gradients).toBeUndefined();
    expect(
      record!.sites.every(({ format, snrDb, amax }) => format === undefined && snrDb === undefined && amax > 0),
    ).toBe(true);

    const numerics = makeNumerics(tinyPlan({ telemetry: { period: 1, gradientCosine: false } }))!;
    const { params } = initialState(tinyModel, 3);
    (params.layers[1]!.gate.data as Float32Array)[5] = Number.POSITIVE_INFINITY;
    const { data } = tinyRun("", tinyPlan());
    const found = await numerics
      .measure({ params } as never, data.train.batchAt(1), 1)
      .finally(() => numerics.dispose());
    expect(found.notFinite![0]).toBe("layer 1 mlp.gate w");
    expect(found.notFinite).toContain("layer 0 attn.q dy");
    expect(found.notFinite).not.toContain("layer 0 attn.q x");
  });
});
