/** Recipes: named values of `LinearPrecision`, with the policy each name brings along. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import type { LinearPrecision, PlainOperand, QuantizedOperand } from "./precision.ts";

/** Which modules a recipe quantizes; the rest computes in BF16. */
export const policyNames = ["all_linear", "mlp_only"] as const;
export type PolicyName = (typeof policyNames)[number];

/** The switches of NVFP4, each on by default. */
export interface Nvfp4Switches {
  /** Rotate both operands of wgrad. */
  readonly rht: boolean;
  /** Round gradients stochastically. */
  readonly stochasticRounding: boolean;
  /** Scales of weights: one for a 16×16 tile, so that fprop and dgrad see the same values, or for 1×16. */
  readonly weightScaling: "2d" | "1d";
}

export const nvfp4Defaults: Nvfp4Switches = { rht: true, stochasticRounding: true, weightScaling: "2d" };

const plain: PlainOperand = { element: "plain" };
const plainGemm = { rotation: "none", left: plain, right: plain } as const;

/** Operands in the compute dtype: the bf16 recipe, or FP32 where the model computes in float32. */
export const bf16: LinearPrecision = { fprop: plainGemm, dgrad: plainGemm, wgrad: plainGemm };

type RowBlocks = QuantizedOperand & { readonly block: "1x16" };

/** NVFP4: x and gradients in 1×16 blocks, weights in tiles; gradients stochastic; wgrad rotated. */
export function nvfp4(switches: Partial<Nvfp4Switches> = {}): LinearPrecision {
  const { rht, stochasticRounding, weightScaling } = { ...nvfp4Defaults, ...switches };
  const scale = { type: "e4m3", outer: "tensor" } as const;
  const x: RowBlocks = { element: "e2m1", block: "1x16", scale, rounding: "nearest" };
  const dy: RowBlocks = { ...x, rounding: stochasticRounding ? "stochastic" : "nearest" };
  const w: QuantizedOperand = { ...x, block: weightScaling === "2d" ? "16x16" : "1x16" };
  return {
    fprop: { rotation: "none", left: x, right: w },
    dgrad: { rotation: "none", left: dy, right: w },
    wgrad: { rotation: rht ? "hadamard16" : "none", left: dy, right: x },
  };
}

/** What a recipe's name stands for. */
export interface Recipe {
  readonly name: string;
  readonly precision: LinearPrecision;
  readonly policy: PolicyName;
  /** Blocks at the end that stay in BF16 unless the user says otherwise. */
  readonly lastLayersBf16: number | "15%";
  /** What the user should know about the name. */
  readonly notes: readonly string[];
}

interface NameRule {
  readonly family: "bf16" | "nvfp4";
  readonly switches?: Partial<Nvfp4Switches>;
  readonly policy?: PolicyName;
  readonly lastLayersBf16?: number | "15%";
  readonly notes?: readonly string[];
}

const maxText: NameRule = {
  family: "nvfp4",
  policy: "mlp_only",
  notes: [
    "mlp_only and no BF16 blocks, as MaxText describes this recipe; MaxText's code today quantizes all linear layers (precision_policy=all_linear)",
  ],
};

/** `none`, the recipes by name, and the names that users bring from MaxText (te_…) and Megatron Bridge (…_mixed). */
const rules: Readonly<Record<string, NameRule>> = {
  none: { family: "bf16" },
  bf16: { family: "bf16" },
  bf16_mixed: { family: "bf16" },
  nvfp4: { family: "nvfp4", lastLayersBf16: "15%" },
  te_nvfp4: maxText,
  te_nvfp4_no_rht: { ...maxText, switches: { rht: false } },
  bf16_with_nvfp4_mixed: {
    family: "nvfp4",
    lastLayersBf16: "15%",
    notes: ["the last 15 % of the blocks stay in BF16, as for nvfp4; Megatron's own recipe of this name keeps none"],
  },
};

/** Names that mean a recipe which does not run yet. */
const notBuilt = [
  "fp8_current_scaling",
  "fp8_delayed_scaling",
  "fp8_block_scaling",
  "mxfp8",
  "mxfp4",
  "te_mxfp8",
  "te_fp8_currentscaling",
  "te_fp8_delayedscaling",
  "bf16_with_fp8_current_scaling_mixed",
  "bf16_with_fp8_delayed_scaling_mixed",
  "bf16_with_fp8_subchannel_scaling_mixed",
  "bf16_with_mxfp8_mixed",
];

/** Every name that `recipeByName` takes. */
export const recipeNames: readonly string[] = Object.keys(rules);

/** The recipe of a name; `switches` change NVFP4's own. @throws UserError for unknown and not yet built ones */
export function recipeByName(name: string, switches: Partial<Nvfp4Switches> = {}): Recipe {
  const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
  if (rule === undefined) throw unknownName(name);
  const [changed] = Object.keys(switches);
  if (rule.family === "bf16" && changed !== undefined) {
    throw new UserError("E_RECIPE", `${name} has no switch ${changed}; the switches belong to nvfp4`);
  }
  return {
    name,
    precision: rule.family === "bf16" ? bf16 : nvfp4({ ...rule.switches, ...switches }),
    policy: rule.policy ?? "all_linear",
    lastLayersBf16: rule.lastLayersBf16 ?? 0,
    notes: rule.notes ?? [],
  };
}

function unknownName(name: string): UserError {
  const built = recipeNames.join(", ");
  if (notBuilt.includes(name)) {
    return new UserError("E_RECIPE", `the recipe ${name} is not built yet; recipes that are: ${built}`);
  }
  const near = nearest(name, [...recipeNames, ...notBuilt]);
  return new UserError(
    "E_RECIPE",
    `unknown recipe "${name}"${near === undefined ? `; known: ${built}` : `. Did you mean "${near}"?`}`,
  );
}
