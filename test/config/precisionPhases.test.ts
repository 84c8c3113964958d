/** What validation and later steps compute in, what quantizes nothing, and what such precisions are called. */
import { describe, expect, it } from "vitest";
import { evalPrecisions, laterPrecision, precisionPlan, resolve } from "../../src/config/index.ts";
import { llamaModules } from "../../src/models/llama.ts";
import { type PrecisionPlan, recipeByName } from "../../src/quant/index.ts";
import { forwardKey, nameOfEvaluation } from "../../src/train/evalPrecision.ts";
import { nameOfPrecision } from "../../src/train/phases.ts";
import type { RunPlan } from "../../src/train/plan.ts";

const resolved = (settings: Record<string, unknown>) =>
  resolve({ dataset_type: "synthetic", num_decoder_layers: 4, steps: 8 }, settings);
const evaluation = (settings: Record<string, unknown>) => evalPrecisions(resolved(settings))[0] as PrecisionPlan;

/** As much of a run's plan as names need. */
function planOf(settings: Record<string, unknown>): RunPlan {
  const config = resolved(settings);
  const later = laterPrecision(config);
  const plan = { model: { dtype: "bfloat16" }, precision: precisionPlan(config) };
  return { ...plan, ...(later && { laterPrecision: later }) } as RunPlan;
}

describe("eval_precision", () => {
  it.each([
    { quantization: "nvfp4", last_layers_bf16: 0 },
    { quantization: "nvfp4", first_layers_bf16: 2, scale_gain: 1.0625, weight_scaling: "1d" },
    { quantization: "nvfp4", precision_policy: "mlp_only" },
    { quantization: "nvfp4", precision_overrides: "layers.*.attn=mxfp8,layers.3.mlp=mxfp8" },
    { quantization: "mxfp8", num_decoder_layers: 1, fp8_format: "hybrid" },
  ])("of the run's own recipe computes as the run does: %j", (settings) => {
    const { quantization } = settings;
    const plan = evaluation({ ...settings, eval_precision: quantization });
    const run = precisionPlan(resolved(settings));
    expect(forwardKey(plan)).toBe(forwardKey(run));
    for (const module of llamaModules) expect(plan.precision(module, 0)).toEqual(run.precision(module, 0));
    expect(nameOfEvaluation(plan, planOf(settings))).toBe(quantization);
  });

  it("of another recipe keeps the run's policy, blocks and overrides, and has its own switches", () => {
    const settings = {
      quantization: "mxfp8",
      first_layers_bf16: 1,
      precision_policy: "mlp_only",
      fp8_format: "hybrid",
    };
    const plan = evaluation({ ...settings, eval_precision: "nvfp4", precision_overrides: "layers.2.attn.q=mxfp8" });
    const of = (name: string) => recipeByName(name).precision;
    expect(plan.precision("mlp.up", 0)).toEqual(of("bf16"));
    expect(plan.precision("mlp.up", 3)).toEqual(of("nvfp4"));
    expect(plan.precision("attn.k", 3)).toEqual(of("bf16"));
    expect(plan.precision("attn.q", 2)).toEqual(of("mxfp8"));
  });

  it("is possible for a model of one block whose run keeps none in BF16", () => {
    const plan = evaluation({ quantization: "mxfp8", num_decoder_layers: 1, eval_precision: "nvfp4" });
    expect(plan.precision("mlp.up", 0)).toEqual(recipeByName("nvfp4").precision);
  });

  it("of bf16 is BF16 throughout", () => {
    const plan = evaluation({ eval_precision: "bf16", precision_overrides: "layers.*.mlp=nvfp4" });
    expect(plan.precision("mlp.up", 0)).toEqual(recipeByName("bf16").precision);
  });

  it("is named apart where training computes otherwise under its name", () => {
    const settings = {
      quantization: "nvfp4",
      precision_overrides: "layers.*.attn=fp8_current_scaling",
      precision_switch_step: "4",
      precision_switch_gemms: "all",
      precision_switch_to: "mxfp8",
    };
    const plan = evaluation({ ...settings, eval_precision: "mxfp8" });
    expect(nameOfEvaluation(plan, planOf(settings))).toBe("mxfp8 (eval_precision)");
    expect(nameOfEvaluation(plan, planOf({ quantization: "nvfp4" }))).toBe("mxfp8");
  });

  it("takes no recipe written out, and says so", () => {
    const recipe = '{"fprop":"nvfp4","dgrad":"nvfp4","wgrad":"nvfp4"}';
    expect(() => evaluation({ eval_precision: `same,${recipe}` })).toThrow("a recipe of your own can't be named here");
    expect(() => resolved({ precision_overrides: `layers.*=${recipe}` })).toThrow(
      "a recipe of your own can't be named in a rule",
    );
  });
});

describe("precision_switch_to", () => {
  const toNvfp4 = { precision_switch_step: "4", precision_switch_gemms: "all", precision_switch_to: "nvfp4" };

  it("of the run's own recipe keeps the run's switches, so it changes nothing", () => {
    const settings = { quantization: "nvfp4", scale_gain: 1.0625, ...toNvfp4 };
    expect(() => resolved(settings)).toThrow("precision_switch_to=nvfp4 is what these GEMMs compute in already");
  });

  it("keeps residuals packed", () => {
    const packed = (packed_residuals: boolean) =>
      laterPrecision(resolved({ quantization: "mxfp8", packed_residuals, ...toNvfp4 }))!.precision;
    expect(packed(true).precision("mlp.up", 0)).toEqual({ ...recipeByName("nvfp4").precision, residuals: "packed" });
    expect(packed(false).precision("mlp.up", 0)).toEqual(recipeByName("nvfp4").precision);
    expect([packed(true).packedResiduals, packed(false).packedResiduals]).toEqual([true, false]);
  });
});

describe("precision_overrides", () => {
  it.each([
    [
      { quantization: "nvfp4", precision_overrides: "*=bf16" },
      "nvfp4 with precision_overrides=*=bf16 would quantize nothing: every GEMM would compute in BF16",
    ],
    [
      { precision_overrides: "layers.*=nvfp4,layers.*=bf16" },
      "precision_overrides=layers.*=nvfp4,layers.*=bf16 would quantize nothing",
    ],
    [{ precision_overrides: "layers.*.fprop=mxfp4_rht_sr" }, /matches nothing|would quantize nothing/],
    [{ precision_overrides: "layers.*.mlp.up.fprop=mxfp4_rht_sr" }, "would quantize nothing"],
    [
      { quantization: "nvfp4", num_decoder_layers: 1, precision_overrides: "layers.0.attn=bf16" },
      "of 1 blocks the first 0 and the last 1 stay in BF16, and the rules quantize no other GEMM",
    ],
    [
      { precision_overrides: "layers.*=bf16", packed_residuals: true },
      "packed_residuals=true has no effect: quantization=none quantizes nothing",
    ],
    [
      { precision_overrides: "layers.*=bf16", telemetry_period: 1, telemetry_gradient_cosine: true },
      "telemetry_gradient_cosine=true has no effect: quantization=none computes the gradients of BF16",
    ],
  ])("%j is refused: %s", (settings, message) => {
    expect(() => resolved(settings)).toThrow(message);
  });

  it("may be all that is quantized of a model whose blocks the policy keeps in BF16", () => {
    const settings = { num_decoder_layers: 1, quantization: "nvfp4", precision_overrides: "layers.0.mlp=nvfp4" };
    expect(precisionPlan(resolved(settings)).precision("mlp.up", 0)).toEqual(recipeByName("nvfp4").precision);
  });

  it("without a recipe are in the precision's name, and have a gradient to compare with BF16's", () => {
    const settings = {
      precision_overrides: "layers.*.mlp=nvfp4",
      telemetry_period: 1,
      telemetry_gradient_cosine: true,
    };
    const plan = planOf(settings);
    expect(nameOfPrecision(plan.precision, plan)).toBe("bf16 with precision_overrides");
    expect(resolved(settings).keys.telemetry_gradient_cosine).toBe(true);
    expect(nameOfPrecision(plan.precision, { ...plan, precision: plan.precision })).not.toBe(
      nameOfEvaluation(evaluation({ ...settings, eval_precision: "bf16" }), plan),
    );
  });
});

describe("a recipe written out", () => {
  it("is one recipe in whatever order its keys are written", () => {
    const { left, right } = recipeByName("mxfp8").precision.fprop;
    const one = { fprop: { rotation: "none", left, right }, dgrad: "mxfp8", wgrad: "mxfp8" };
    const other = { wgrad: "mxfp8", dgrad: "mxfp8", fprop: { right, left, rotation: "none" } };
    const text = (recipe: object) => resolved({ quantization: JSON.stringify(recipe) }).keys.quantization;
    expect(text(one)).toBe(text(other));
  });
});
