/** Names of recipes, what they resolve to, which layers policies quantize, and the table that says so. */
import { describe, expect, it } from "vitest";
import {
  bf16,
  describeGemm,
  fp8BlockScaling,
  fp8CurrentScaling,
  fp8DelayedScaling,
  isQuantized,
  isStochastic,
  mxfp4,
  mxfp8,
  nvfp4,
  precisionTable,
  recipeByName,
  resolvePrecision,
} from "../../src/quant/index.ts";

const modules = ["attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up", "mlp.down"];

/** Blocks and modules that a plan quantizes. */
function quantized(options: Parameters<typeof resolvePrecision>[0]): { layers: number[]; modules: string[] } {
  const plan = resolvePrecision(options);
  const all = Array.from({ length: options.numLayers }, (_, layer) => layer);
  const hit = (module: string, layer: number) => isQuantized(plan.precision(module, layer));
  return {
    layers: all.filter((layer) => modules.some((module) => hit(module, layer))),
    modules: modules.filter((module) => all.some((layer) => hit(module, layer))),
  };
}

describe("recipes", () => {
  it("describe NVFP4's three GEMMs as the contract's table", () => {
    const { fprop, dgrad, wgrad } = nvfp4();
    expect(describeGemm(fprop)).toBe("e2m1 1x16 × e2m1 16x16");
    expect(describeGemm(dgrad)).toBe("e2m1 1x16 stochastic (biased) × e2m1 16x16");
    expect(describeGemm(wgrad)).toBe("e2m1 1x16 stochastic (biased) × e2m1 1x16, rotated");
    // With a gain of 17/16 no element saturates whatever its scale rounds to.
    expect(describeGemm(nvfp4({ gain: 17 / 16 }).dgrad)).toBe(
      "e2m1 1x16 gain 1.0625 stochastic × e2m1 16x16 gain 1.0625",
    );
    expect(describeGemm(bf16.fprop)).toBe("bf16 × bf16");
    expect(describeGemm(bf16.fprop, "float32")).toBe("fp32 × fp32");
  });

  it("have a switch for each ingredient", () => {
    expect(describeGemm(nvfp4({ rht: false }).wgrad)).toBe("e2m1 1x16 stochastic (biased) × e2m1 1x16");
    expect(isStochastic(nvfp4())).toBe(true);
    expect(isStochastic(nvfp4({ stochasticRounding: false }))).toBe(false);
    const rows = nvfp4({ weightScaling: "1d" });
    expect([rows.fprop, rows.dgrad].map((gemm) => describeGemm(gemm))).toEqual([
      "e2m1 1x16 × e2m1 1x16",
      "e2m1 1x16 stochastic (biased) × e2m1 1x16",
    ]);
  });

  it.each([
    ["none", bf16, "all_linear", 0],
    ["bf16", bf16, "all_linear", 0],
    ["bf16_mixed", bf16, "all_linear", 0],
    ["nvfp4", nvfp4(), "all_linear", "15%"],
    ["mxfp4", mxfp4(), "all_linear", "15%"],
    ["mxfp8", mxfp8(), "all_linear", 0],
    ["te_mxfp8", mxfp8(), "all_linear", 0],
    ["bf16_with_mxfp8_mixed", mxfp8(), "all_linear", 0],
    ["te_fp8_currentscaling", fp8CurrentScaling(), "all_linear", 0],
    ["fp8_delayed_scaling", fp8DelayedScaling(), "all_linear", 0],
    ["te_fp8_delayedscaling", fp8DelayedScaling(), "all_linear", 0],
    ["fp8", fp8DelayedScaling(), "all_linear", 0],
    ["bf16_with_fp8_delayed_scaling_mixed", fp8DelayedScaling(), "all_linear", 0],
    ["bf16_with_fp8_current_scaling_mixed", fp8CurrentScaling(), "all_linear", 1],
    ["bf16_with_fp8_subchannel_scaling_mixed", fp8BlockScaling({ hybrid: true }), "all_linear", 0],
    ["te_nvfp4", nvfp4(), "mlp_only", 0],
    ["te_nvfp4_no_rht", nvfp4({ rht: false }), "mlp_only", 0],
    ["bf16_with_nvfp4_mixed", nvfp4(), "all_linear", "15%"],
  ] as const)("%s brings its own settings", (name, precision, policy, lastLayersBf16) => {
    expect(recipeByName(name)).toMatchObject({ name, precision, policy, lastLayersBf16 });
  });

  it("note where a name means something else in its own framework", () => {
    expect(recipeByName("te_nvfp4").notes[0]).toMatch(/MaxText's code today quantizes all linear layers/);
    expect(recipeByName("bf16_with_nvfp4_mixed").notes[0]).toMatch(/Megatron's own recipe of this name keeps none/);
    expect(recipeByName("nvfp4").notes).toEqual([]);
  });

  it("take switches where they have them", () => {
    expect(recipeByName("nvfp4", { rht: false }).precision).toEqual(nvfp4({ rht: false }));
    expect(recipeByName("te_nvfp4_no_rht", { stochasticRounding: false }).precision).toEqual(
      nvfp4({ rht: false, stochasticRounding: false }),
    );
    expect(recipeByName("mxfp8", { round: "floor" }).precision).toEqual(mxfp8({ round: "floor" }));
    expect(() => recipeByName("bf16", { rht: false })).toThrow("bf16 has no switch rht: it has none");
    expect(() => recipeByName("nvfp4", { rhts: false })).toThrow("nvfp4 has no switch rhts: did you mean rht?");
  });

  it("suggest the nearest name for an unknown one", () => {
    expect(() => recipeByName("nvfp")).toThrow('unknown recipe "nvfp". Did you mean "nvfp4"?');
    expect(() => recipeByName("toString")).toThrow(/unknown recipe/);
    expect(() => recipeByName("xyzzy")).toThrow(/known: none, bf16/);
  });
});

describe("policies", () => {
  it.each([
    [1, 1],
    [4, 1],
    [7, 2],
    [20, 3],
    [32, 5],
    [40, 6],
  ])("nvfp4 on %d blocks keeps the last %d in BF16", (numLayers, kept) => {
    if (kept === numLayers) return;
    const plan = resolvePrecision({ recipe: recipeByName("nvfp4"), numLayers });
    expect(plan.lastLayersBf16).toBe(kept);
    expect(plan.notes.at(-1)).toBe(
      `nvfp4 keeps the last ${kept} of ${numLayers} blocks in BF16 (15 %, rounded up); last_layers_bf16=0 quantizes all`,
    );
    expect(quantized({ recipe: recipeByName("nvfp4"), numLayers })).toEqual({
      layers: Array.from({ length: numLayers - kept }, (_, i) => i),
      modules,
    });
  });

  it("say nothing about what the user set", () => {
    const plan = resolvePrecision({ recipe: recipeByName("nvfp4"), numLayers: 8, lastLayersBf16: 2 });
    expect(plan).toMatchObject({ lastLayersBf16: 2, notes: [] });
  });

  it("mlp_only leaves the attention's projections in BF16", () => {
    const recipe = recipeByName("te_nvfp4");
    expect(quantized({ recipe, numLayers: 3 })).toEqual({ layers: [0, 1, 2], modules: modules.slice(4) });
    expect(quantized({ recipe, numLayers: 3, policy: "all_linear" }).modules).toEqual(modules);
  });

  it("keep first and last blocks in BF16", () => {
    const recipe = recipeByName("nvfp4");
    expect(quantized({ recipe, numLayers: 8, firstLayersBf16: 1, lastLayersBf16: 3 }).layers).toEqual([1, 2, 3, 4]);
    expect(quantized({ recipe, numLayers: 8, lastLayersBf16: 0 }).layers.length).toBe(8);
    const plan = resolvePrecision({ recipe, numLayers: 8, firstLayersBf16: 1, policy: "mlp_only" });
    expect(plan.reason("mlp.up", 0, "fprop")).toBe("first_layers_bf16");
    expect(plan.reason("mlp.up", 7, "fprop")).toBe("last_layers_bf16");
    expect(plan.reason("attn.q", 3, "fprop")).toBe("mlp_only");
    expect(plan.reason("mlp.up", 3, "fprop")).toBeUndefined();
  });

  it("refuse a run that would quantize nothing", () => {
    const recipe = recipeByName("nvfp4");
    expect(() => resolvePrecision({ recipe, numLayers: 1 })).toThrow(
      "nvfp4 would quantize nothing: of 1 blocks the first 0 and the last 1 stay in BF16",
    );
    expect(() => resolvePrecision({ recipe, numLayers: 8, firstLayersBf16: 4, lastLayersBf16: 4 })).toThrow(/nothing/);
    expect(() => resolvePrecision({ recipe, numLayers: 8, firstLayersBf16: 7, lastLayersBf16: 1 })).toThrow(/nothing/);
    // BF16 itself quantizes nothing and may.
    expect(isQuantized(resolvePrecision({ recipe: recipeByName("bf16"), numLayers: 1 }).precision("mlp.up", 0))).toBe(
      false,
    );
  });

  it("refuse numbers that are no count of blocks", () => {
    const recipe = recipeByName("nvfp4");
    expect(() => resolvePrecision({ recipe, numLayers: 8, lastLayersBf16: 9 })).toThrow(
      "last_layers_bf16 must be a whole number from 0 to 8 (the blocks); got 9",
    );
    expect(() => resolvePrecision({ recipe, numLayers: 8, firstLayersBf16: 0.5 })).toThrow(/first_layers_bf16 must be/);
  });
});

describe("the table of what runs", () => {
  const shapes = [
    { module: "attn.q", outDim: 64, inDim: 64 },
    { module: "mlp.up", outDim: 100, inDim: 64 },
  ];
  const plan = resolvePrecision({ recipe: recipeByName("nvfp4"), numLayers: 8, policy: "mlp_only" });
  const options = { modules: shapes, tokens: 50, dtype: "bfloat16" } as const;

  it("has a row for each run of blocks, module and GEMM", () => {
    const rows = precisionTable(plan, options);
    expect(rows.length).toBe(2 * 2 * 3);
    expect(rows[3]).toEqual({
      firstLayer: 0,
      lastLayer: 5,
      module: "mlp.up",
      gemm: "fprop",
      format: "e2m1 1x16 × e2m1 16x16",
      runs: "emulated",
      padding: "out 100→112",
      reason: "",
    });
    expect(rows.slice(3, 6).map(({ padding }) => padding)).toEqual(["out 100→112", "out 100→112", "tokens 50→64"]);
    expect(rows[0]).toMatchObject({ format: "bf16 × bf16", runs: "native", padding: "", reason: "mlp_only" });
    expect(rows[11]).toMatchObject({ firstLayer: 6, lastLayer: 7, gemm: "wgrad", reason: "last_layers_bf16" });
  });
});
