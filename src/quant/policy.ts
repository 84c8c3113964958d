/** Policies: which linear layers of a model a recipe quantizes. */
import { UserError } from "../base/errors.ts";
import { checkPrecision } from "./checkPrecision.ts";
import { overrideLookup, type PrecisionOverride, showOverride } from "./overrides.ts";
import { type GemmName, gemmNames, isQuantized, isQuantizedGemm, type LinearPrecision } from "./precision.ts";
import type { PolicyName, Recipe } from "./recipeNames.ts";
import { bf16 } from "./recipes.ts";

/** A recipe, and which blocks and modules it is for. */
export interface PolicyOptions {
  readonly recipe: Recipe;
  readonly numLayers: number;
  /** Default: the recipe's. */
  readonly policy?: PolicyName;
  /** Blocks at the beginning that stay in BF16 (default: the recipe's). */
  readonly firstLayersBf16?: number;
  /** Blocks at the end that stay in BF16 (default: the recipe's). */
  readonly lastLayersBf16?: number;
  /** Rules for single GEMMs over all of this; the last that fits counts. */
  readonly overrides?: readonly PrecisionOverride[];
  /** Keep what the backward pass reads packed. */
  readonly packedResiduals?: boolean;
  /** The linear layers of a block, "attn.q", …: what overrides may name. */
  readonly modules?: readonly string[];
}

/** How every linear layer of a model computes. */
export interface PrecisionPlan {
  /** What it is called: the recipe, and what was switched since. */
  readonly name: string;
  readonly recipe: Recipe;
  readonly policy: PolicyName;
  readonly overrides: readonly PrecisionOverride[];
  readonly numLayers: number;
  readonly firstLayersBf16: number;
  readonly lastLayersBf16: number;
  /** Whether what the backward pass reads is kept packed. */
  readonly packedResiduals: boolean;
  /** Sentences for the user about what was decided without being asked. */
  readonly notes: readonly string[];
  /** How a module of a layer computes. */
  readonly precision: (module: string, layer: number) => LinearPrecision;
  /** Why a GEMM computes otherwise than the recipe says; undefined where it does as it says. */
  readonly reason: (module: string, layer: number, gemm: GemmName) => string | undefined;
}

/** Fifteen per cent of the blocks, rounded up: full FP4 diverges without them. */
const fifteenPercent = (numLayers: number): number => Math.ceil((numLayers * 15) / 100);

/** @throws UserError where the numbers don't fit the model, or nothing is left to quantize. */
export function resolvePrecision(options: PolicyOptions): PrecisionPlan {
  const { recipe, numLayers, policy = recipe.policy, firstLayersBf16 = recipe.firstLayersBf16 } = options;
  const { overrides = [], modules = [], packedResiduals = false } = options;
  checkPrecision(recipe.precision);
  const quantizes = isQuantized(recipe.precision);
  const derived = recipe.lastLayersBf16 === "15%" ? fifteenPercent(numLayers) : recipe.lastLayersBf16;
  const lastLayersBf16 = options.lastLayersBf16 ?? derived;
  for (const [key, count] of Object.entries({ first_layers_bf16: firstLayersBf16, last_layers_bf16: lastLayersBf16 })) {
    if (!Number.isInteger(count) || count < 0 || count > numLayers) {
      throw new UserError(
        "E_POLICY",
        `${key} must be a whole number from 0 to ${numLayers} (the blocks); got ${count}`,
      );
    }
  }
  const keptByDefault = quantizes && options.lastLayersBf16 === undefined && lastLayersBf16 > 0;
  const excluded = (module: string, layer: number): string | undefined => {
    if (!quantizes) return undefined;
    if (layer < firstLayersBf16) return "first_layers_bf16";
    if (layer >= numLayers - lastLayersBf16) return "last_layers_bf16";
    return policy === "mlp_only" && !module.startsWith("mlp.") ? "mlp_only" : undefined;
  };
  const overrideOf = overrideLookup(overrides, modules, numLayers);
  const chosen = (module: string, layer: number, gemm: GemmName): Recipe | "plain" =>
    overrideOf(module, layer, gemm)?.recipe ?? (excluded(module, layer) === undefined ? recipe : "plain");
  const precision = composed((module, layer, gemm) => {
    const from = chosen(module, layer, gemm);
    return from === "plain" ? bf16 : from.precision;
  }, packedResiduals);
  const isEveryBlockKept = firstLayersBf16 + lastLayersBf16 >= numLayers;
  const anyIsQuantized = () =>
    somewhere({ numLayers, modules }, (module, layer) =>
      gemmNames.some((gemm) => {
        const from = chosen(module, layer, gemm);
        return from !== "plain" && isQuantizedGemm(from.precision[gemm]);
      }),
    );
  const overrideQuantizes = overrides.some(({ recipe }) => isQuantized(recipe.precision));
  const isNothingQuantized = overrides.length === 0 ? isEveryBlockKept : !anyIsQuantized();
  if ((quantizes || overrideQuantizes) && isNothingQuantized) {
    const keptBlocks = `of ${numLayers} blocks the first ${firstLayersBf16} and the last ${lastLayersBf16} stay in BF16`;
    const fix = "lower first_layers_bf16 or last_layers_bf16, or train with bf16";
    const rules = `precision_overrides=${overrides.map(showOverride).join(",")}`;
    throw new UserError(
      "E_POLICY",
      overrides.length === 0
        ? `${recipe.name} would quantize nothing: ${keptBlocks}; ${fix}`
        : `${recipe.name} with ${rules} would quantize nothing: ${isEveryBlockKept ? `${keptBlocks}, and the rules quantize no other GEMM` : "every GEMM would compute in BF16"}; change the rules, or train with bf16 alone`,
    );
  }
  return {
    name: !quantizes && overrideQuantizes ? `${recipe.name} with precision_overrides` : recipe.name,
    recipe,
    policy,
    overrides,
    numLayers,
    firstLayersBf16,
    lastLayersBf16,
    packedResiduals,
    notes: [
      ...recipe.notes.map((note) => `${recipe.name}: ${note}`),
      ...(keptByDefault
        ? [
            `${recipe.name} keeps the last ${lastLayersBf16} of ${numLayers} blocks in BF16 (15 %, rounded up); last_layers_bf16=0 quantizes all`,
          ]
        : []),
    ],
    precision,
    reason: (module, layer, gemm) => {
      const override = overrideOf(module, layer, gemm);
      return override === undefined ? excluded(module, layer) : `precision_overrides: ${showOverride(override)}`;
    },
  };
}

/** Whether any linear layer is as `test` says; a model whose modules are unknown has one of the MLP in each block. */
function somewhere(
  { numLayers, modules }: { readonly numLayers: number; readonly modules: readonly string[] },
  test: (module: string, layer: number) => boolean,
): boolean {
  const names = modules.length > 0 ? modules : ["mlp.down"];
  for (let layer = 0; layer < numLayers; layer++) if (names.some((module) => test(module, layer))) return true;
  return false;
}

/** Whether any GEMM of the modules is quantized. */
export const quantizesAnything = ({ numLayers, precision }: PrecisionPlan, modules: readonly string[]): boolean =>
  somewhere({ numLayers, modules }, (module, layer) => isQuantized(precision(module, layer)));

/**
 * The three GEMMs of each linear layer, each from the precision that `from` names, one object for each linear layer.
 * Calling it throws UserError where GEMMs of different recipes don't go together.
 */
export function composed(
  from: (module: string, layer: number, gemm: GemmName) => LinearPrecision,
  packedResiduals = false,
): PrecisionPlan["precision"] {
  const known = new Map<string, LinearPrecision>();
  return (module, layer) => {
    const place = `layers.${layer}.${module}`;
    const before = known.get(place);
    if (before !== undefined) return before;
    const sources = gemmNames.map((gemm) => from(module, layer, gemm));
    const [fprop, dgrad, wgrad] = gemmNames.map((gemm, i) => sources[i]![gemm]);
    // Estimators are of fprop's rounding, so they come with it.
    const { estimator } = sources[0]!;
    const gemms = { fprop: fprop!, dgrad: dgrad!, wgrad: wgrad!, ...(estimator && { estimator }) };
    const isPacked = packedResiduals || sources.some(({ residuals }) => residuals === "packed");
    const precision: LinearPrecision = isPacked && isQuantized(gemms) ? { ...gemms, residuals: "packed" } : gemms;
    checkPrecision(precision, place);
    known.set(place, precision);
    return precision;
  };
}
