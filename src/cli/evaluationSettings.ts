/** Which settings an evaluation reads: what the text is and how its loss is computed. The model's sizes are the model's own. */
import { refuseMistakes, UserError } from "../base/errors.ts";
import { sizesOf } from "../checkpoint/modelSizes.ts";
import { type PartialSettings, readSettings, type SettingKey } from "../config/index.ts";
import type { LlamaConfig } from "../models/llama.ts";
import { switchKeys } from "../quant/index.ts";

const readKeys: ReadonlySet<SettingKey> = new Set<SettingKey>([
  ...(["eval_dataset_path", "dataset_type", "train_data_columns", "dataset_bad_records"] as const),
  ...(["dataset_token_dtype", "tokenizer_path", "packing", "reset_attention_mask", "max_segments_per_seq"] as const),
  ...(["max_target_length", "per_device_batch_size", "eval_steps"] as const),
  ...(["dtype", "quantization", "precision_policy", "first_layers_bf16", "last_layers_bf16"] as const),
  ...(["precision_overrides", "rounding_seed", "native_kernels"] as const),
  ...switchKeys,
]);

/** Keys of which text is read. */
const ofText: readonly SettingKey[] = ["dataset_path", "validation_fraction", "tokenize_workers"];

/**
 * A person's settings with their types, without those that say what the model says.
 * @throws UserError naming every mistake, every setting that contradicts the model, and every one that is not read
 */
export function evaluationSettings(
  own: Readonly<Record<string, unknown>>,
  { path, model }: { readonly path: string; readonly model: LlamaConfig },
): PartialSettings {
  const { settings, written, mistakes } = readSettings(own);
  const sizes = sizesOf(model);
  const wrong = (Object.keys(settings) as SettingKey[]).flatMap((key): UserError[] => {
    if (readKeys.has(key)) return [];
    if (!(key in sizes)) {
      const why = ofText.includes(key)
        ? "evaluation reads all of eval_dataset_path, in one thread"
        : "evaluation neither trains nor changes the model, and `halfbyte evaluate --help` lists what it reads";
      return [new UserError("E_NO_EFFECT", `${written[key]} has no effect: ${why}; leave it out`)];
    }
    // -1 leaves a size open.
    if (settings[key] === sizes[key] || settings[key] === -1) return [];
    const has = sizes[key] === undefined ? `${path} has none` : `${path} has ${key}=${sizes[key]}`;
    return [new UserError("E_VALUE", `${written[key]} contradicts the model: ${has}; leave it out`)];
  });
  refuseMistakes([...mistakes, ...wrong], "things are wrong");
  return Object.fromEntries(Object.entries(settings).filter(([key]) => !(key in sizes)));
}
