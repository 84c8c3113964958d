/**
 * Keys of MaxText that Halfbyte has not. Where a value asks for nothing that a run here does not do anyway, it is accepted;
 * any other is refused with the reason and what to do.
 */

export interface ForeignKey {
  /** Values that ask for nothing, in lower case; "" stands for the empty value. */
  readonly neutral: readonly string[];
  /** Why another value is refused, and what to do. */
  readonly reason: string;
}

const axes = [
  "diloco",
  "data",
  "pipeline",
  "fsdp",
  "fsdp_transpose",
  "sequence",
  "context",
  "context_autoregressive",
  "tensor",
  "tensor_transpose",
  "tensor_sequence",
  "expert",
  "autoregressive",
];

/** -1 takes the devices that are left: one. */
const parallelism = Object.fromEntries(
  axes.flatMap((axis) =>
    ["ici", "dcn"].map((network) => [
      `${network}_${axis}_parallelism`,
      { neutral: ["1", "-1"], reason: "a run uses one device so far: set 1 or leave it out" },
    ]),
  ),
);

const only = (value: string, reason: string): ForeignKey => ({ neutral: [value], reason });
const off = (reason: string): ForeignKey => ({ neutral: ["false", "", "none"], reason });
const textOnly: ForeignKey = {
  neutral: [""],
  reason: "text is read from files: dataset_type=text dataset_path=PATH",
};

export const foreignKeys: Readonly<Record<string, ForeignKey>> = {
  ...parallelism,
  num_slices: only("1", "a run uses one device so far: set 1 or leave it out"),
  shard_mode: only("auto", "a run uses one device so far, and nothing is sharded: leave it out"),
  weight_dtype: only("float32", "weights are kept in float32, whatever dtype computes in: leave it out"),
  grad_dtype: only("float32", "gradients are kept in float32: leave it out"),
  mu_dtype: { neutral: ["float32", ""], reason: "the optimizer's moments are kept in float32: leave it out" },
  opt_type: only("adamw", "AdamW is the only optimizer so far: leave it out"),
  adam_eps_root: only("0", "AdamW has one epsilon, outside the root: set adam_eps"),
  matmul_precision: only("default", "dtype and quantization say what products are computed in: leave it out"),
  logits_dot_in_fp32: off("the head multiplies in dtype and sums in FP32; dtype=float32 computes everything in FP32"),
  cast_logits_to_fp32: only("true", "logits are FP32 in any case: leave it out"),
  decoder_block: only("llama2", "Llama is the only architecture so far: leave it out"),
  fused_qkv: off("each projection has tensors and scales of its own: leave it out"),
  fused_mlp: off("each projection has tensors and scales of its own: leave it out"),
  num_epoch: only("1", "the text is read again as often as steps needs: set steps"),
  async_checkpointing: only("true", "checkpoints are always written while training goes on: leave it out"),
  dataset_name: textOnly,
  hf_path: textOnly,
  hf_train_files: textOnly,
  grain_train_files: textOnly,
  tokenizer_type: {
    neutral: ["huggingface", "tiktoken", "sentencepiece"],
    reason: "what kind of file tokenizer_path names is told from the file: leave it out",
  },
  log_config: only("true", "the resolved settings are always printed and saved: leave it out"),
  enable_tensorboard: off("losses are in events.jsonl and loss.svg of the run's folder: leave it out"),
  enable_wandb: off("losses are in events.jsonl and loss.svg of the run's folder: leave it out"),
  metrics_file: only("", "every step is in events.jsonl of the run's folder: leave it out"),
  enable_goodput_recording: off("there is none: leave it out"),
  monitor_goodput: off("there is none: leave it out"),
  reuse_example_batch: { neutral: ["0", "false"], reason: "every step has a batch of its own: leave it out" },
  compile_topology: only("", "programs are compiled for the device they run on: leave it out"),
};

export const isForeign = (name: string): boolean => Object.hasOwn(foreignKeys, name);

/** Why `name=value` is refused, or undefined where it asks for nothing. */
export function refusedElsewhere(name: string, value: unknown): string | undefined {
  const { neutral, reason } = foreignKeys[name]!;
  const plain = String(value ?? "none")
    .trim()
    .replace(/^(['"])(.*)\1$/s, "$2")
    .toLowerCase();
  const number = plain !== "" && Number.isFinite(Number(plain)) ? String(Number(plain)) : plain;
  return neutral.includes(number) ? undefined : reason;
}
