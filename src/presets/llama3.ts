import type { PartialSettings } from "../config/index.ts";

/**
 * The models of Llama 3 with the peak learning rates they were trained with (Grattafiori et al. 2024), on synthetic data:
 * what a machine makes of them. For text, set dataset_type=text, dataset_path and tokenizer_path.
 */
const llama3: PartialSettings = {
  dataset_type: "synthetic",
  max_target_length: 8192,
  per_device_batch_size: 1,
  remat_policy: "full",
};

export function llama3_8b(): PartialSettings {
  return { ...llama3, model_name: "llama3-8b", learning_rate: 3e-4 };
}

export function llama3_70b(): PartialSettings {
  return { ...llama3, model_name: "llama3-70b", learning_rate: 1.5e-4 };
}

export function llama31_405b(): PartialSettings {
  return { ...llama3, model_name: "llama3.1-405b", learning_rate: 8e-5 };
}
