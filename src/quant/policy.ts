/** Policies: which linear layers of a model a recipe quantizes. */
import { UserError } from "../base/errors.ts";
import { checkPrecision } from "./checkPrecision.ts";
import { overrideLookup, type PrecisionOverride, showOverride } from "./overrides.ts";
import { type GemmName, gemmNames, isQuantized, type LinearPrecision } from "./precision.ts";
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
  const { overrides = [], modules = [] } = options;
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
  if (quantizes && firstLayersBf16 + lastLayersBf16 >= numLayers) {
    throw new UserError(
      "E_POLICY",
      `${recipe.name} would quantize nothing: of ${numLayers} blocks the first ${firstLayersBf16} and the last ${lastLayersBf16} stay in BF16; lower first_layers_bf16 or last_layers_bf16, or train with bf16`,
    );
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
  return {
    name: recipe.name,
    recipe,
    policy,
    overrides,
    numLayers,
    firstLayersBf16,
    lastLayersBf16,
    notes: [
      ...recipe.notes.map((note) => `${recipe.name}: ${note}`),
      ...(keptByDefault
        ? [
            `${recipe.name} keeps the last ${lastLayersBf16} of ${numLayers} blocks in BF16 (15 %, rounded up); last_layers_bf16=0 quantizes all`,
          ]
        : []),
    ],
    precision: composed((module, layer, gemm) => {
      const from = chosen(module, layer, gemm);
      return from === "plain" ? bf16 : from.precision;
    }, options.packedResiduals),
    reason: (module, layer, gemm) => {
      const override = overrideOf(module, layer, gemm);
      return override === undefined ? excluded(module, layer) : `precision_overrides: ${showOverride(override)}`;
    },
  };
}

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
