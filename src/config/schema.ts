/**
 * Every setting: its name on the command line, its default, what it means and what it may be. Grouped by the stage that
 * reads it. Names are MaxText's where the meaning is; -1 stands for "derived", and the documentation says from what.
 */
import { z } from "zod";
import { type RematPolicyName, rematPolicies } from "../models/rematPolicies.ts";
import { scheduleKinds } from "../optim/index.ts";
import { policyNames, recipeNames } from "../quant/index.ts";

/** A whole number of at least `least`. */
const whole = (least: number) => z.number().int().min(least);
/** A whole number of at least 1, or -1 for what is derived. */
const wholeOrDerived = () =>
  z
    .number()
    .int()
    .refine((value) => value === -1 || value >= 1);
/** Ranges that a schema's own bounds don't tell, in words. */
const derivedRule = { rule: "an integer of 1 or more, or -1" };
const seed = () => z.number().int().min(0).max(4294967295);

export const modelSettings = z.object({
  model_name: z
    .enum(["custom", "llama-tiny", "llama-demo"])
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
  head_dim: wholeOrDerived().default(-1).describe("Width of a head; -1 = emb_dim / num_query_heads").meta(derivedRule),
  vocab_size: wholeOrDerived()
    .default(-1)
    .describe("Rows of the embedding and of the head; -1 = the tokenizer's number of tokens (256 for synthetic data)")
    .meta(derivedRule),
  rope_theta: z.number().gt(0).default(10000).describe("Base of the rotary position frequencies"),
  norm_eps: z.number().gt(0).max(0.1).default(1e-5).describe("Added to the mean square in RMSNorm"),
  logits_via_embedding: z.boolean().default(false).describe("Use the embedding as the head too (tied weights)"),
});

export const dataSettings = z.object({
  dataset_type: z
    .enum(["text", "synthetic"])
    .default("text")
    .describe("text: plain text files; synthetic: a Markov chain, learnable without any file"),
  dataset_path: z
    .string()
    .default("")
    .describe("Training text: a file, a folder (its .txt and .md files) or a pattern; each file is a document"),
  eval_dataset_path: z.string().default("").describe("Validation text, of the same kinds; empty for none"),
  validation_fraction: z
    .number()
    .min(0)
    .lt(1)
    .default(0)
    .describe("Share of the training text to hold out for validation: whole documents, or the end of a single one"),
  tokenizer_path: z
    .string()
    .min(1)
    .default("byte")
    .describe("byte, or a tokenizer.json, or the folder that has one")
    .meta({ rule: "byte or a path" }),
  max_target_length: whole(1).default(256).describe("Tokens in a training sequence"),
  per_device_batch_size: whole(1).default(8).describe("Sequences a step and device"),
});

export const optimizerSettings = z.object({
  learning_rate: z.number().gt(0).max(10).default(1e-3).describe("Peak learning rate of AdamW"),
  lr_schedule_type: z
    .enum(scheduleKinds)
    .default("cosine")
    .describe("What follows warm-up: nothing, a line, half a cosine, or constant and then a line (wsd)"),
  warmup_steps_fraction: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("Share of learning_rate_schedule_steps in which the learning rate rises from 0"),
  learning_rate_final_fraction: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("Learning rate at the schedule's end, as a fraction of the peak"),
  learning_rate_schedule_steps: wholeOrDerived()
    .default(-1)
    .describe("Steps the schedule spans, after which the learning rate is 0; -1 = steps")
    .meta(derivedRule),
  wsd_decay_steps_fraction: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("Share of learning_rate_schedule_steps that is wsd's final decay"),
  adam_b1: z.number().min(0).lt(1).default(0.9).describe("Decay of AdamW's mean gradient"),
  adam_b2: z.number().min(0).lt(1).default(0.95).describe("Decay of AdamW's mean squared gradient"),
  adam_eps: z.number().gt(0).max(1).default(1e-8).describe("Added to AdamW's denominator"),
  adam_weight_decay: z.number().min(0).max(10).default(0.1).describe("Decoupled weight decay"),
  gradient_clipping_threshold: z
    .number()
    .min(0)
    .default(1)
    .describe("Largest global gradient norm; larger gradients are scaled down to it; 0 = no clipping"),
});

export const runSettings = z.object({
  run_name: z
    .string()
    .regex(/^([A-Za-z0-9][\w.-]*)?$/)
    .default("")
    .describe("Folder of the run below base_output_directory; empty = made from precision and time of start")
    .meta({ rule: "letters, digits, _ . -, beginning with a letter or digit" }),
  base_output_directory: z.string().min(1).default("runs").describe("Folder of all runs").meta({ rule: "a path" }),
  steps: whole(1).default(1000).describe("Training steps"),
  eval_interval: wholeOrDerived()
    .default(-1)
    .describe("Steps between validations; -1 = only after the last step")
    .meta(derivedRule),
  eval_steps: wholeOrDerived().default(-1).describe("Batches of a validation; -1 = all").meta(derivedRule),
  enable_checkpointing: z.boolean().default(true).describe("Save checkpoints, and resume from the newest"),
  checkpoint_period: whole(1).default(500).describe("Steps between checkpoints; one is saved at the end in any case"),
  max_num_checkpoints_to_keep: wholeOrDerived()
    .default(3)
    .describe("Older checkpoints are deleted; -1 = keep all")
    .meta(derivedRule),
  init_weights_seed: seed().default(0).describe("Decides the initial weights"),
  data_shuffle_seed: seed().default(0).describe("Decides the order of the training sequences"),
  rounding_seed: seed().default(0).describe("Decides the draws of stochastic rounding"),
  log_period: whole(1).default(1).describe("Steps between lines on the console; events hold every step"),
});

export const computeSettings = z.object({
  dtype: z
    .enum(["bfloat16", "float32"])
    .default("bfloat16")
    .describe("Activations and matrix products; master weights, gradients and moments are FP32 in any case"),
  quantization: z
    .enum(recipeNames)
    .default("none")
    .describe("Precision recipe of the linear layers; none computes them in dtype"),
  precision_policy: z
    .enum(["default", ...policyNames])
    .default("default")
    .describe("Which GEMMs are quantized: those of every linear layer, or the MLP's; default = what quantization says"),
  first_layers_bf16: whole(0).default(0).describe("Blocks at the beginning that stay in BF16"),
  last_layers_bf16: z
    .number()
    .int()
    .min(-1)
    .default(-1)
    .describe("Blocks at the end that stay in BF16; -1 = what quantization says: 15 %, rounded up, or none for te_…")
    .meta({ rule: "an integer of 0 or more, or -1" }),
  remat_policy: z
    .enum(Object.keys(rematPolicies) as [RematPolicyName, ...RematPolicyName[]])
    .default("none")
    .describe("What the backward pass recomputes instead of keeping: none keeps all, full keeps block inputs only"),
});

/** The groups in the order they are shown. */
export const groups = {
  model: modelSettings,
  data: dataSettings,
  optimizer: optimizerSettings,
  run: runSettings,
  compute: computeSettings,
} as const;

export type GroupName = keyof typeof groups;

/** Values of every key by its command-line name. */
export type Settings = z.output<typeof modelSettings> &
  z.output<typeof dataSettings> &
  z.output<typeof optimizerSettings> &
  z.output<typeof runSettings> &
  z.output<typeof computeSettings>;

export type SettingKey = keyof Settings;

/** Other spellings of keys. */
export const aliases: Readonly<Record<string, SettingKey>> = {
  base_emb_dim: "emb_dim",
  base_mlp_dim: "mlp_dim",
  base_num_decoder_layers: "num_decoder_layers",
  base_num_query_heads: "num_query_heads",
  base_num_kv_heads: "num_kv_heads",
};
