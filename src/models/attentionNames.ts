/** MaxText's names of attention kernels, and what runs for each: the tiled attention of `nn/attention.ts`, on every platform. */
export const attentionNames = ["autoselected", "dot_product", "flash", "cudnn_flash_te", "cudnn_flash_jax"] as const;
export type AttentionName = (typeof attentionNames)[number];

/** What to tell someone who asked for a kernel by name. */
export function attentionNotes(name: AttentionName): string[] {
  if (name === "autoselected") return [];
  return [
    `attention=${name}: Halfbyte's tiled causal attention runs, which computes the same and never forms [B, H, T, T]`,
  ];
}

/** Why kernels that mean something else are refused. */
export const refusedAttention: Readonly<Record<string, string>> = {
  paged: "paged attention serves requests from a cache of keys and values; training has none",
  vllm_rpa: "this is the attention of a vLLM server; training has none",
};
