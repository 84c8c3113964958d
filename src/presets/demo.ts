import { modelSizes, type PartialSettings } from "../config/index.ts";

/**
 * The demo's run: a Llama of 4.0 M parameters and a vocabulary of 4,096 tokens learns English in about two minutes on
 * two CPU cores. 240 steps of 4,096 tokens at 25.6 MFLOP a token are 2.5e13 FLOPs.
 */
export function demo(): PartialSettings {
  return {
    ...modelSizes["llama-demo"],
    vocab_size: 4096,
    validation_fraction: 0.03,
    max_target_length: 256,
    per_device_batch_size: 16,
    learning_rate: 3e-3,
    lr_schedule_type: "cosine",
    warmup_steps_fraction: 0.1,
    learning_rate_final_fraction: 0.1,
    steps: 240,
    eval_interval: 60,
    checkpoint_period: 120,
    max_num_checkpoints_to_keep: 1,
  };
}
