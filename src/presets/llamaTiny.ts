import { modelSizes, type PartialSettings } from "../config/index.ts";

/** A Llama so small that a step takes milliseconds: to try things out, and for tests. Bytes as tokens. */
export function llamaTiny(): PartialSettings {
  return {
    ...modelSizes["llama-tiny"],
    tokenizer_path: "byte",
    max_target_length: 128,
    per_device_batch_size: 8,
    learning_rate: 3e-3,
    steps: 200,
    checkpoint_period: 100,
  };
}
