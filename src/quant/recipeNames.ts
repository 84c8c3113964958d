/** Recipe names: what `quantization` may be, with the policy that each name brings along. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { isCustomRecipe, parseCustomRecipe } from "./customRecipe.ts";
import type { LinearPrecision } from "./precision.ts";
import {
  llmFp4,
  llmFp4Defaults,
  mxfp4RhtSr,
  mxfp4RhtSrDefaults,
  nvfp4FourOverSix,
  nvfp4FourOverSixDefaults,
  quartet,
  quartet2,
  quartet2Defaults,
  quartetDefaults,
  tetrajet2,
  tetrajet2Defaults,
  ufp4,
  ufp4Defaults,
} from "./publishedRecipes.ts";
import {
  bf16,
  fp8BlockDefaults,
  fp8BlockScaling,
  fp8CurrentDefaults,
  fp8CurrentScaling,
  fp8DelayedDefaults,
  fp8DelayedScaling,
  mxfp4,
  mxfp4Defaults,
  mxfp8,
  mxfp8Defaults,
  nvfp4,
  nvfp4Bound,
  nvfp4Defaults,
} from "./recipes.ts";

/** Which modules a recipe quantizes; the rest computes in BF16. */
export const policyNames = ["all_linear", "mlp_only"] as const;
export type PolicyName = (typeof policyNames)[number];

/** What a recipe's name stands for. */
export interface Recipe {
  readonly name: string;
  readonly precision: LinearPrecision;
  /** The switches that its family has, at the values that `precision` has. */
  readonly switches: Readonly<Record<string, unknown>>;
  readonly policy: PolicyName;
  /** Blocks at the beginning that stay in BF16 unless the user says otherwise. */
  readonly firstLayersBf16: number;
  /** Blocks at the end that stay in BF16 unless the user says otherwise. */
  readonly lastLayersBf16: number | "15%";
  /** What the user should know about the name. */
  readonly notes: readonly string[];
}

/** A family's recipe by its switches, and the switches' defaults. */
interface Family<S extends object> {
  readonly make: (switches: Partial<S>) => LinearPrecision;
  readonly defaults: S;
}

const families = {
  bf16: { make: () => bf16, defaults: {} },
  fp8_current_scaling: { make: fp8CurrentScaling, defaults: fp8CurrentDefaults },
  fp8_delayed_scaling: { make: fp8DelayedScaling, defaults: fp8DelayedDefaults },
  fp8_block_scaling: { make: fp8BlockScaling, defaults: fp8BlockDefaults },
  mxfp8: { make: mxfp8, defaults: mxfp8Defaults },
  mxfp4: { make: mxfp4, defaults: mxfp4Defaults },
  nvfp4: { make: nvfp4, defaults: nvfp4Defaults },
  nvfp4_4over6: { make: nvfp4FourOverSix, defaults: nvfp4FourOverSixDefaults },
  quartet2: { make: quartet2, defaults: quartet2Defaults },
  quartet: { make: quartet, defaults: quartetDefaults },
  tetrajet2: { make: tetrajet2, defaults: tetrajet2Defaults },
  mxfp4_rht_sr: { make: mxfp4RhtSr, defaults: mxfp4RhtSrDefaults },
  ufp4: { make: ufp4, defaults: ufp4Defaults },
  llm_fp4: { make: llmFp4, defaults: llmFp4Defaults },
} as const;

type FamilyName = keyof typeof families;

interface NameRule extends Partial<Omit<Recipe, "name" | "precision" | "switches">> {
  readonly family: FamilyName;
  readonly switches?: Readonly<Record<string, unknown>>;
}

const maxText = {
  policy: "mlp_only",
  notes: [
    "mlp_only and no BF16 blocks, as MaxText describes this recipe; MaxText's code today quantizes all linear layers (precision_policy=all_linear)",
  ],
} as const;

/** `none`, the recipes by name, and the names that users bring from MaxText (te_…) and Megatron Bridge (…_mixed). */
const rules: Readonly<Record<string, NameRule>> = {
  none: { family: "bf16" },
  bf16: { family: "bf16" },
  fp8_current_scaling: { family: "fp8_current_scaling" },
  fp8_delayed_scaling: { family: "fp8_delayed_scaling" },
  fp8_block_scaling: { family: "fp8_block_scaling" },
  mxfp8: { family: "mxfp8" },
  mxfp4: { family: "mxfp4", lastLayersBf16: "15%" },
  nvfp4: { family: "nvfp4", lastLayersBf16: "15%" },
  nvfp4_4over6: {
    family: "nvfp4_4over6",
    lastLayersBf16: "15%",
    notes: ["arXiv 2512.02010: four over six in fprop, gradients without it and with gain 17/16"],
  },
  quartet2: {
    family: "quartet2",
    notes: [
      "arXiv 2601.22813 with ties to even; its kernels also choose four over six in fprop by default (four_over_six=all)",
    ],
  },
  quartet: {
    family: "quartet",
    notes: ["arXiv 2505.14669, signs of the backward rotations drawn before the transform"],
  },
  tetrajet2: {
    family: "tetrajet2",
    notes: ["arXiv 2510.27527 without its outlier channels and without its reset of oscillating weights"],
  },
  mxfp4_rht_sr: {
    family: "mxfp4_rht_sr",
    notes: ["arXiv 2502.20586: backward GEMMs alone are quantized, fprop is BF16"],
  },
  ufp4: {
    family: "ufp4",
    notes: [
      "arXiv 2606.20381 as far as its abstract says; block scales and the size of the rotation are assumed to be NVFP4's, and integers of 4 bits are emulated on any hardware",
    ],
  },
  llm_fp4: {
    family: "llm_fp4",
    notes: ["arXiv 2501.17116 without the clamping of outliers and their sparse residual; backward GEMMs are BF16"],
  },
  te_nvfp4: { ...maxText, family: "nvfp4" },
  te_nvfp4_no_rht: { ...maxText, family: "nvfp4", switches: { rht: false } },
  te_mxfp8: { family: "mxfp8" },
  te_fp8_currentscaling: { family: "fp8_current_scaling" },
  te_fp8_delayedscaling: { family: "fp8_delayed_scaling" },
  fp8: {
    family: "fp8_delayed_scaling",
    notes: [
      "fp8_delayed_scaling, which is what MaxText means; its code divides by a scale rounded to BF16, so last bits differ",
    ],
  },
  bf16_mixed: { family: "bf16" },
  bf16_with_fp8_current_scaling_mixed: { family: "fp8_current_scaling", firstLayersBf16: 1, lastLayersBf16: 1 },
  bf16_with_fp8_delayed_scaling_mixed: { family: "fp8_delayed_scaling" },
  bf16_with_fp8_subchannel_scaling_mixed: { family: "fp8_block_scaling", switches: { hybrid: true } },
  bf16_with_mxfp8_mixed: { family: "mxfp8" },
  bf16_with_nvfp4_mixed: {
    family: "nvfp4",
    lastLayersBf16: "15%",
    notes: ["the last 15 % of the blocks stay in BF16, as for nvfp4; Megatron's own recipe of this name keeps none"],
  },
};

const otherFp8 = "fp8_current_scaling scales each tensor by its own largest value";
const integers = "integer formats are not built; mxfp8 and nvfp4 are the recipes of 8 and 4 bits";

/** Names of MaxText that mean something that no recipe here does: why they are refused, and what is near. */
const refusedNames: Readonly<Record<string, string>> = {
  fp8_gpu: `in MaxText fp8_gpu is fp8 through another library, and no recipe here is its equal; ${otherFp8}`,
  fp8_full: `in MaxText fp8_full scales by calibration settings of its own, which are not built; ${otherFp8}`,
  aqt_fp8: `MaxText's fp8 through the library AQT is not built; ${otherFp8}`,
  aqt_fp8_full: `MaxText's fp8 through the library AQT is not built; ${otherFp8}`,
  nanoo_fp8: `AMD's FP8 formats (FNUZ) are not built; ${otherFp8}, in OCP's formats`,
  fp8_nanoo: `AMD's FP8 formats (FNUZ) are not built; ${otherFp8}, in OCP's formats`,
  ...Object.fromEntries(["int8", "int8w", "int4", "int4w", "intmp", "w4a8", "w8a8"].map((name) => [name, integers])),
};

/** Every name that `recipeByName` takes. */
export const recipeNames: readonly string[] = Object.keys(rules);

/**
 * The recipe of a name; `switches` change its family's own. In place of a name, a recipe written out as JSON (customRecipe.ts),
 * which has no switches. @throws UserError for unknown names and switches
 */
export function recipeByName(name: string, switches: Readonly<Record<string, unknown>> = {}): Recipe {
  if (isCustomRecipe(name)) return customRecipe(name, switches);
  const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
  if (rule === undefined) throw unknownName(name);
  const { family, switches: own, ...settings } = rule;
  const { make, defaults } = families[family] as Family<object>;
  const unknown = Object.keys(switches).find((key) => !Object.hasOwn(defaults, key));
  if (unknown !== undefined) {
    const known = Object.keys(defaults);
    const near = nearest(unknown, known);
    const fix = known.length === 0 ? "it has none" : `did you mean ${near ?? known.join(", ")}?`;
    throw new UserError("E_RECIPE", `${name} has no switch ${unknown}: ${fix}`);
  }
  const chosen = { ...own, ...switches };
  const shown = resolvedSwitches(defaults, chosen);
  const kept = { policy: "all_linear", firstLayersBf16: 0, lastLayersBf16: 0, notes: [], ...settings } as const;
  return { name, ...kept, precision: make(chosen), switches: shown };
}

function customRecipe(text: string, switches: Readonly<Record<string, unknown>>): Recipe {
  const [unknown] = Object.keys(switches);
  if (unknown !== undefined) throw new UserError("E_RECIPE", `a recipe written out has no switch ${unknown}`);
  const precision = parseCustomRecipe(text, (name) => recipeByName(name).precision);
  const kept = { policy: "all_linear", firstLayersBf16: 0, lastLayersBf16: 0, notes: [] } as const;
  return { name: "custom", ...kept, precision, switches: {} };
}

/** Every switch of a family with its value; a bound that is not one number has none. */
function resolvedSwitches(defaults: object, chosen: Readonly<Record<string, unknown>>): Recipe["switches"] {
  const all = { ...defaults, ...chosen };
  if (!("fourOverSix" in all && "bound" in defaults) || "bound" in chosen) return all;
  return { ...all, bound: nvfp4Bound(all.fourOverSix as Parameters<typeof nvfp4Bound>[0]) };
}

function unknownName(name: string): UserError {
  const refused = Object.hasOwn(refusedNames, name) ? refusedNames[name] : undefined;
  if (refused !== undefined) return new UserError("E_RECIPE", refused);
  const built = recipeNames.join(", ");
  const near = nearest(name, recipeNames);
  return new UserError(
    "E_RECIPE",
    `unknown recipe "${name}"${near === undefined ? `; known: ${built}` : `. Did you mean "${near}"?`}`,
  );
}
