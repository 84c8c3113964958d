/** What the precision keys say, as one value in which a combination without meaning can't be written. */
import { UserError } from "../base/errors.ts";
import type { Settings } from "./schema.ts";

export type PrecisionPolicy = "all_linear" | "mlp_only";

export type Precision =
  /** Everything in FP32. */
  | { readonly recipe: "float32" }
  /** Linear layers in BF16. */
  | { readonly recipe: "bf16" }
  | {
      readonly recipe: "nvfp4";
      readonly policy: PrecisionPolicy;
      readonly firstLayersBf16: number;
      readonly lastLayersBf16: number;
      /** Rotation of the weight gradient's operands. */
      readonly rht: boolean;
      readonly stochasticRounding: boolean;
      readonly weightScaling: "2d" | "1d";
    };

interface Name {
  readonly recipe: "none" | "bf16" | "nvfp4";
  readonly policy: PrecisionPolicy;
  /** Share of the blocks, at the end, that stay in BF16 by default. */
  readonly lastShareBf16: number;
  readonly rht: boolean;
  readonly note?: string;
}

const nvfp4: Name = { recipe: "nvfp4", policy: "all_linear", lastShareBf16: 0.15, rht: true };
const maxText =
  "as MaxText's post describes it: MLP only and no block in BF16; its code today quantizes every linear layer (precision_policy=all_linear)";
const names: Readonly<Record<Settings["quantization"], Name>> = {
  none: { ...nvfp4, recipe: "none" },
  bf16: { ...nvfp4, recipe: "bf16" },
  bf16_mixed: { ...nvfp4, recipe: "bf16" },
  nvfp4,
  te_nvfp4: { ...nvfp4, policy: "mlp_only", lastShareBf16: 0, note: maxText },
  te_nvfp4_no_rht: { ...nvfp4, policy: "mlp_only", lastShareBf16: 0, rht: false, note: maxText },
  bf16_with_nvfp4_mixed: { ...nvfp4, note: "the blocks kept in BF16 are Halfbyte's; Megatron keeps none" },
};

/** Whether the quantization of this name has GEMMs in fewer than 16 bits. */
export function quantizes(settings: Pick<Settings, "quantization">): boolean {
  return names[settings.quantization].recipe === "nvfp4";
}

/** @throws UserError where the keys contradict each other or leave nothing quantized. */
export function resolvePrecision(settings: Settings): { readonly precision: Precision; readonly notes: string[] } {
  const { dtype, quantization, num_decoder_layers: blocks } = settings;
  const { recipe, policy, lastShareBf16, rht, note } = names[quantization];
  if (dtype === "float32") {
    if (recipe === "none") return { precision: { recipe: "float32" }, notes: [] };
    throw new UserError(
      "E_PRECISION",
      `quantization=${quantization} with dtype=float32: the recipe rounds its operands from BF16; set dtype=bfloat16, or quantization=none for FP32`,
    );
  }
  if (recipe !== "nvfp4") return { precision: { recipe: "bf16" }, notes: [] };

  const first = settings.first_layers_bf16;
  const byDefault = settings.last_layers_bf16 === -1;
  const last = byDefault ? Math.max(0, Math.ceil(blocks * lastShareBf16 - 1e-9)) : settings.last_layers_bf16;
  if (first + last >= blocks) {
    throw new UserError(
      "E_PRECISION",
      `quantization=${quantization} would quantize nothing: of num_decoder_layers=${blocks} the first ${first} and the last ${last}${byDefault ? " (15 %, rounded up)" : ""} stay in BF16; set first_layers_bf16 and last_layers_bf16 to less than ${blocks} together`,
    );
  }
  const notes = note === undefined ? [] : [`quantization=${quantization}: ${note}`];
  if (first + last > 0) {
    const kept = [first > 0 && `the first ${first}`, last > 0 && `the last ${last}`].filter((part) => part !== false);
    notes.push(`quantization=${quantization} keeps ${kept.join(" and ")} of ${blocks} blocks in BF16`);
  }
  return {
    precision: {
      recipe: "nvfp4",
      policy: settings.precision_policy === "default" ? policy : settings.precision_policy,
      firstLayersBf16: first,
      lastLayersBf16: last,
      rht,
      stochasticRounding: true,
      weightScaling: "2d",
    },
    notes,
  };
}
