/** Remat policies of a block by MaxText's names, from saving everything to saving the block's input alone. */
import type { RematPolicy } from "../autodiff/index.ts";

const projections = ["query_proj", "key_proj", "value_proj"];

/** undefined: nothing is computed again. "context" is the attention's result with its log-sum-exp. */
export const rematPolicies = {
  none: undefined,
  full: {},
  minimal: { dots: true },
  minimal_with_context: { dots: true, names: ["context"] },
  minimal_with_quantization: { dots: true, names: ["quantization"] },
  minimal_with_context_and_quantization: { dots: true, names: ["context", "quantization"] },
  save_qkv_proj: { names: projections },
  save_out_proj: { names: ["out_proj"] },
} as const satisfies Record<string, RematPolicy | undefined>;

export type RematPolicyName = keyof typeof rematPolicies;
