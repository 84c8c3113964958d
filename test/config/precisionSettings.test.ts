/** Recipes' switches and overrides as settings: what they mean to the recipe, what is refused, what is shown as derived. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { explainKey, fields, precisionPlan, resolve } from "../../src/config/index.ts";
import { llamaModules } from "../../src/models/llama.ts";
import { gemmNames, hasSwitch, recipeByName, recipeNames, switchKeys } from "../../src/quant/index.ts";
import { switchSettings } from "../../src/quant/switchSettings.ts";

const base = { dataset_type: "synthetic", num_decoder_layers: 8 } as const;
const resolved = (settings: Record<string, unknown>) => resolve(base, settings);
const precisionOf = (settings: Record<string, unknown>) => precisionPlan(resolved(settings));
const mlp = (settings: Record<string, unknown>) => precisionOf(settings).precision("mlp.down", 0);

describe("switches of recipes", () => {
  it("are settings, every one of them, for the recipes that have them", () => {
    const known: readonly string[] = Object.values(switchSettings);
    for (const name of recipeNames) {
      for (const own of Object.keys(recipeByName(name).switches)) expect(known, `${name}: ${own}`).toContain(own);
    }
    for (const key of switchKeys)
      expect(
        recipeNames.some((name) => hasSwitch(name, key)),
        key,
      ).toBe(true);
  });

  it.each([
    [{ quantization: "nvfp4", rht: "false" }, { rht: false }],
    [{ quantization: "nvfp4", rht: false }, { rht: false }],
    [{ quantization: "nvfp4", stochastic_rounding: "False" }, { stochasticRounding: false }],
    [{ quantization: "nvfp4", weight_scaling: "1d" }, { weightScaling: "1d" }],
    [
      { quantization: "nvfp4", scale_gain: "1.0625", scale_bound: 400 },
      { gain: 1.0625, bound: 400 },
    ],
    [{ quantization: "nvfp4", row_scaled_activation: "true" }, { rowScaledActivation: true }],
    [{ quantization: "nvfp4", four_over_six: "all" }, { fourOverSix: "all" }],
    [
      { quantization: "nvfp4", four_over_six: "weights", four_over_six_error: "mse" },
      { fourOverSix: "weights", fourOverSixError: "mse" },
    ],
    [
      { quantization: "mxfp4", mx_scale_rounding: "floor", rht: "false" },
      { round: "floor", rht: false },
    ],
    [{ quantization: "mxfp8", fp8_format: "hybrid" }, { hybrid: true }],
    [{ quantization: "fp8_current_scaling", fp8_format: "e4m3" }, { hybrid: false }],
    [{ quantization: "fp8_block_scaling", power_of_two_scales: "false" }, { powerOfTwo: false }],
    [
      { quantization: "fp8_delayed_scaling", fp8_amax_history_len: 16, fp8_amax_compute_algo: "most_recent" },
      { historyLength: 16, algorithm: "most_recent" },
    ],
    [
      { quantization: "te_fp8_delayedscaling", fp8_margin: "1", fp8_format: "e4m3" },
      { margin: 1, hybrid: false },
    ],
    [{ quantization: "nvfp4", disable_rht: "True" }, { rht: false }],
    [{ quantization: "nvfp4", disable_stochastic_rounding: true }, { stochasticRounding: false }],
    [{ quantization: "nvfp4", disable_2d_quantization: "true" }, { weightScaling: "1d" }],
  ])("%j is the recipe with %j", (settings, switches) => {
    expect(mlp(settings)).toEqual(recipeByName(settings.quantization, switches).precision);
  });

  it("resolve to values that give the same precision again, whatever is set", () => {
    const words = (key: string) =>
      fields().get(key)!.choices ?? ["-1", "1", fields().get(key)!.kind === "integer" ? "16" : "1.0625"];
    const anySwitches = fc.record(
      Object.fromEntries(switchKeys.map((key) => [key, fc.constantFrom(...words(key))])) as Record<
        string,
        fc.Arbitrary<string>
      >,
      { requiredKeys: [] },
    );
    const quantizing = recipeNames.filter((name) => Object.keys(recipeByName(name).switches).length > 0);
    fc.assert(
      fc.property(fc.constantFrom(...quantizing), anySwitches, (quantization, all) => {
        const own = Object.entries(all).filter(
          ([key]) => hasSwitch(quantization, key as never) && key !== "four_over_six_error",
        );
        const config = resolved({ quantization, ...Object.fromEntries(own) });
        const again = resolve(JSON.parse(JSON.stringify(config.keys)));
        expect(again.keys).toEqual(config.keys);
        for (const module of llamaModules) {
          expect(precisionPlan(again).precision(module, 0)).toEqual(precisionPlan(config).precision(module, 0));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("are shown as the recipe has them, as derived where nobody set them", () => {
    const config = resolved({ quantization: "te_nvfp4_no_rht", scale_gain: 1.0625 });
    expect(config.keys).toMatchObject({
      rht: "false",
      stochastic_rounding: "true",
      weight_scaling: "2d",
      scale_bound: 448,
    });
    expect(config.derived).toEqual(expect.arrayContaining(["rht", "stochastic_rounding", "scale_bound"]));
    expect(config.derived).not.toContain("scale_gain");
    expect(config.keys).not.toHaveProperty("mx_scale_rounding");
    expect(resolved({ quantization: "nvfp4", four_over_six: "all" }).keys).toHaveProperty("scale_bound", 256);
    // Weights then have 256 and activations 448: no one number.
    expect(resolved({ quantization: "nvfp4", four_over_six: "weights" }).keys).toHaveProperty("scale_bound", -1);
  });

  it.each([
    [
      { quantization: "mxfp8", rht: "false" },
      "rht=false has no effect: quantization=mxfp8 has no such switch; these have: mxfp4, nvfp4",
    ],
    [{ mx_scale_rounding: "up" }, "quantization=none has no such switch; these have: mxfp8"],
    [{ quantization: "nvfp4", fp8_format: "e4m3" }, "fp8_format=e4m3 has no effect"],
    [{ quantization: "nvfp4", four_over_six_error: "mse" }, "four_over_six chooses for no operand"],
    [{ quantization: "nvfp4", weight_scaling: "3d" }, "must be one of default, 2d, 1d; did you mean 2d?"],
    [{ quantization: "nvfp4", scale_gain: 3 }, "scale_gain=3: must be a number from 0.5 to 2, or -1"],
    [{ quantization: "nvfp4", stochastic_roundng: "true" }, "did you mean stochastic_rounding?"],
    [{ quantization: "mxfp4", disable_rht: true, rht: true }, "disable_rht=true and rht=true say different things"],
  ])("%j is refused: %s", (settings, message) => {
    expect(() => resolved(settings)).toThrow(message);
  });

  it("are explained with the recipes that have them", () => {
    expect(explainKey("power_of_two_scales")).toMatch(/this switch: fp8_current_scaling, fp8_block_scaling/);
    expect(explainKey("num_layers_at_start_in_bf16")).toContain("first_layers_bf16 (compute");
  });
});

describe("D8: MXFP8", () => {
  it("has E4M3 gradients, as weights and activations have, unless hybrid is asked for", () => {
    const elements = (settings: Record<string, unknown>) =>
      gemmNames.flatMap((gemm) => {
        const { left, right } = mlp({ quantization: "mxfp8", ...settings })[gemm];
        return [left.element, right.element];
      });
    expect(new Set(elements({}))).toEqual(new Set(["e4m3"]));
    expect(elements({ fp8_format: "hybrid" })).toEqual(["e4m3", "e4m3", "e5m2", "e4m3", "e5m2", "e4m3"]);
  });
});

describe("precision_overrides", () => {
  const rules = "layers.*.attn.*=fp8_current_scaling, layers.0-1.mlp.down.wgrad=bf16,layers.1.attn.q=mxfp8";
  const plan = precisionOf({ quantization: "nvfp4", precision_overrides: rules });
  const of = (name: string) => recipeByName(name).precision;

  it("decide single GEMMs, the last rule first, also where the policy keeps BF16", () => {
    expect(plan.precision("attn.k", 3)).toEqual(of("fp8_current_scaling"));
    expect(plan.precision("attn.q", 1)).toEqual(of("mxfp8"));
    expect(plan.precision("attn.q", 7)).toEqual(of("fp8_current_scaling"));
    expect(plan.precision("mlp.up", 7)).toEqual(of("bf16"));
    expect(plan.precision("mlp.down", 1)).toEqual({ ...of("nvfp4"), wgrad: of("bf16").wgrad });
    expect(plan.precision("mlp.down", 2)).toEqual(of("nvfp4"));
  });

  it("say themselves why", () => {
    expect(plan.reason("mlp.down", 0, "wgrad")).toBe("precision_overrides: layers.0-1.mlp.down.wgrad=bf16");
    expect(plan.reason("mlp.down", 0, "fprop")).toBeUndefined();
    expect(plan.reason("mlp.down", 7, "fprop")).toBe("last_layers_bf16");
  });

  it("count without a recipe, and are then what rounding_seed is for", () => {
    const settings = { precision_overrides: "layers.2.mlp=nvfp4", rounding_seed: 3 };
    expect(precisionOf(settings).precision("mlp.up", 2)).toEqual(of("nvfp4"));
    expect(precisionOf(settings).precision("mlp.up", 1)).toEqual(of("bf16"));
  });

  it.each([
    ["layers.*.attn.qq=bf16", "layers.*.attn.qq=bf16 matches nothing: did you mean layers.*.attn.q?"],
    ["layers.*.mpl.up.wgrad=bf16", "did you mean layers.*.mlp.up.wgrad?"],
    ["layers.*.mlp.up.wgra=bf16", "did you mean layers.*.mlp.up.wgrad?"],
    ["layers.*.mlp.up.wgrad.x=bf16", "nothing lies below layers.*.mlp.up.wgrad"],
    ["attn.q=bf16", "did you mean layers.*.attn.q?"],
    ["layers.8=bf16", "layers.8=bf16 matches nothing: the layers are 0 to 7"],
    ["layers.*=nvfp5", 'layers.*=nvfp5: unknown recipe "nvfp5". Did you mean "nvfp4"?'],
    ["layers.*", '"layers.*" must be PATH=RECIPE'],
    ["layers.*=bf16,", '"" must be PATH=RECIPE'],
  ])("%s is refused: %s", (precision_overrides, message) => {
    expect(() => resolved({ precision_overrides })).toThrow(message);
  });

  it("are refused where the model does not compute in BF16", () => {
    expect(() => resolved({ dtype: "float16", precision_overrides: "layers.*=nvfp4" })).toThrow(
      "precision_overrides=layers.*=nvfp4 with dtype=float16: recipes compute in BF16",
    );
  });
});
