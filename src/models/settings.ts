/** Settings of a model by their names on the command line: its sizes, and how its blocks are computed. */
import { z } from "zod";
import { whole, wholeOrDerived } from "../base/settingKinds.ts";
import { attentionNames } from "./attentionNames.ts";
import { modelNames } from "./modelSizes.ts";
import { type RematPolicyName, rematPolicies } from "./rematPolicies.ts";

export const modelSettings = z.object({
  model_name: z
    .enum(["custom", ...modelNames])
    .default("custom")
    .describe("Sizes by name; custom takes them from the keys of this group"),
  override_model_config: z
    .boolean()
    .default(false)
    .describe("Let the keys of this group change the sizes that model_name sets"),
  emb_dim: whole(1).default(256).describe("Width of the residual stream"),
  mlp_dim: whole(1).default(704).describe("Width of the SwiGLU MLP"),
  num_decoder_layers: whole(1).default(4).describe("Number of transformer blocks"),
  num_query_heads: whole(1).default(4).describe("Attention heads"),
  num_kv_heads: whole(1)
    .default(4)
    .describe("Heads of keys and values; each serves num_query_heads / num_kv_heads heads"),
  head_dim: wholeOrDerived().default(-1).describe("Width of a head; -1 = emb_dim / num_query_heads"),
  vocab_size: wholeOrDerived()
    .default(-1)
    .describe("Rows of the embedding and of the head; -1 = the tokenizer's number of tokens (256 for synthetic data)"),
  make_vocab_size_divisible_by: whole(1)
    .default(1)
    .describe(
      "Pad the rows of embedding and head in memory to a multiple; no token has the added ones, no export either",
    ),
  rope_theta: z.number().gt(0).default(10000).describe("Base of the rotary position frequencies"),
  rope_type: z
    .enum(["default", "llama3.1"])
    .default("default")
    .describe("Rotary positions: plain, or with Llama 3.1's slower low frequencies"),
  rope_factor: z.number().min(1).default(8).describe("How many times slower llama3.1 turns its lowest frequencies"),
  rope_low_freq_factor: z
    .number()
    .gt(0)
    .default(1)
    .describe("llama3.1 slows frequencies with fewer turns than this in original_max_position_embeddings"),
  rope_high_freq_factor: z
    .number()
    .gt(0)
    .default(4)
    .describe("llama3.1 keeps frequencies with more turns than this in original_max_position_embeddings"),
  original_max_position_embeddings: whole(1)
    .default(8192)
    .describe("Sequence length that llama3.1's frequencies were made for"),
  norm_eps: z.number().gt(0).max(0.1).default(1e-5).describe("Added to the mean square in RMSNorm"),
  logits_via_embedding: z.boolean().default(false).describe("Use the embedding as the head too (tied weights)"),
});

/** What computes the same model in another way. */
export const blockSettings = z.object({
  remat_policy: z
    .enum(Object.keys(rematPolicies) as [RematPolicyName, ...RematPolicyName[]])
    .default("none")
    .describe(
      "What the backward pass recomputes instead of keeping: none keeps all, full block inputs only, minimal every product, _with_context the attention's result too, _with_quantization quantized operands too, save_… those projections",
    ),
  scan_layers: z
    .boolean()
    .default(false)
    .describe("Compile one block for each run of blocks of equal precision and loop over it; the same results"),
  native_kernels: z
    .enum(["auto", "off"])
    .default("auto")
    .describe(
      "Kernels that the set-up builds for this processor: auto uses them where they are and halfbyte doctor finds them right; off is XLA alone; results differ in rounding",
    ),
  attention: z
    .enum(attentionNames)
    .default("autoselected")
    .describe("Names of attention kernels elsewhere; here each runs the tiled attention, which never forms [B,H,T,T]"),
});
