/** What settings must not say together. A rule is looked at only where all it reads is known. */
import { UserError } from "../base/errors.ts";
import { recipeShown, switchKeys } from "../quant/index.ts";
import { evalPrecisionsOf, laterPrecisionOf } from "./precisionPhases.ts";
import type { SettingKey, Settings } from "./schema.ts";
import { planOf, scheduleOf } from "./stages.ts";

export interface Rule {
  readonly reads: readonly SettingKey[];
  /** What is wrong and what to do, or undefined. */
  readonly mistake: (settings: Settings) => string | undefined;
  /** Counts for a run, not for settings that are only looked at. */
  readonly runOnly?: true;
}

const scheduleKeys = [
  "lr_schedule_type",
  "steps",
  "learning_rate_schedule_steps",
  "warmup_steps",
  "warmup_steps_fraction",
  "wsd_decay_steps_fraction",
] as const;
const precisionKeys = [
  "quantization",
  "num_decoder_layers",
  "precision_policy",
  "first_layers_bf16",
  "last_layers_bf16",
  "precision_overrides",
  ...switchKeys,
] as const;

/** In the order they are told; settings are complete but for vocab_size, which a tokenizer may give later. */
export const rules: readonly Rule[] = [
  {
    reads: ["emb_dim", "num_query_heads", "head_dim"],
    mistake: ({ emb_dim, num_query_heads, head_dim }) => {
      if (!Number.isInteger(head_dim)) {
        return `emb_dim=${emb_dim} is no multiple of num_query_heads=${num_query_heads}: change one, or set head_dim`;
      }
      return head_dim % 2 === 0 ? undefined : `head_dim=${head_dim} is odd: rotary positions turn pairs of dimensions`;
    },
  },
  {
    reads: ["num_query_heads", "num_kv_heads"],
    mistake: ({ num_query_heads: heads, num_kv_heads: kvHeads }) =>
      heads % kvHeads === 0
        ? undefined
        : `num_query_heads=${heads} is no multiple of num_kv_heads=${kvHeads}: each KV head serves equally many heads`,
  },
  {
    reads: ["rope_type", "rope_low_freq_factor", "rope_high_freq_factor"],
    mistake: ({ rope_type, rope_low_freq_factor: low, rope_high_freq_factor: high }) =>
      rope_type === "default" || low < high
        ? undefined
        : `rope_high_freq_factor=${high} must be above rope_low_freq_factor=${low}: frequencies between are blended`,
  },
  {
    reads: ["dataset_type", "vocab_size"],
    mistake: ({ dataset_type, vocab_size }) =>
      dataset_type !== "synthetic" || vocab_size >= 4
        ? undefined
        : `vocab_size=${vocab_size} is too small for dataset_type=synthetic: every token has four different successors, so set 4 or more`,
  },
  {
    reads: ["dataset_type", "dataset_path"],
    runOnly: true,
    mistake: ({ dataset_type, dataset_path }) =>
      dataset_type !== "synthetic" && dataset_path === ""
        ? "dataset_path is missing: set it to a file, a folder or a pattern, or set dataset_type=synthetic"
        : undefined,
  },
  {
    reads: ["dtype", "quantization", "precision_overrides"],
    mistake: ({ dtype, quantization, precision_overrides: overrides }) => {
      if (dtype === "bfloat16") return undefined;
      const rule = "recipes compute in BF16; set dtype=bfloat16, or";
      if (quantization !== "none")
        return `quantization=${recipeShown(quantization)} with dtype=${dtype}: ${rule} quantization=none for ${dtype}`;
      return overrides === ""
        ? undefined
        : `precision_overrides=${overrides} with dtype=${dtype}: ${rule} leave it out`;
    },
  },
  {
    reads: ["initial_loss_scale", "min_loss_scale"],
    mistake: ({ initial_loss_scale: initial, min_loss_scale: minimum }) =>
      initial < minimum
        ? `initial_loss_scale=${initial} is below min_loss_scale=${minimum}: raise one, or lower the other`
        : undefined,
  },
  {
    reads: scheduleKeys,
    mistake: (settings) => {
      const { steps, learning_rate_schedule_steps: total, wsd_decay_steps_fraction: decay } = settings;
      const byFraction = settings.warmup_steps === -1;
      const fraction = settings.warmup_steps_fraction;
      if (settings.lr_schedule_type === "wsd" && byFraction && fraction + decay > 1) {
        return `warmup_steps_fraction=${fraction} and wsd_decay_steps_fraction=${decay} are longer than the schedule together: lower one`;
      }
      return told(() => {
        const { warmupSteps } = scheduleOf(settings);
        if (warmupSteps <= steps) return undefined;
        const by = byFraction
          ? `warmup_steps_fraction=${fraction} of learning_rate_schedule_steps=${total}`
          : "warmup_steps";
        return `warm-up takes ${warmupSteps} steps (${by}), more than steps=${steps}`;
      });
    },
  },
  {
    reads: ["profiler", "skip_first_n_steps_for_profiler", "steps"],
    runOnly: true,
    mistake: ({ profiler, skip_first_n_steps_for_profiler: skip, steps }) =>
      profiler === "" || skip < steps
        ? undefined
        : `skip_first_n_steps_for_profiler=${skip} leaves none of steps=${steps} to trace: what is left out and at least one step must lie within steps; lower it, or raise steps`,
  },
  {
    reads: ["checkpoint_keep_period", "checkpoint_period"],
    mistake: ({ checkpoint_keep_period: keep, checkpoint_period: period }) =>
      keep === -1 || keep % period === 0
        ? undefined
        : `checkpoint_keep_period=${keep} is no multiple of checkpoint_period=${period}: what is kept must be saved; set a multiple`,
  },
  {
    reads: ["load_parameters_path", "load_full_state_path"],
    mistake: ({ load_parameters_path: weights, load_full_state_path: state }) =>
      weights === "" || state === ""
        ? undefined
        : "load_parameters_path begins with weights alone, load_full_state_path with the optimizer and the steps done too: set one of them",
  },
  {
    reads: precisionKeys,
    mistake: planMistake,
  },
  {
    reads: [
      ...precisionKeys,
      ...scheduleKeys,
      "precision_switch_step",
      "precision_switch_gemms",
      "precision_switch_to",
    ],
    mistake: (settings) => {
      // What is wrong with the schedule or the precision alone is told above.
      const wrong = told(() => {
        planOf(settings);
        scheduleOf(settings);
        return undefined;
      });
      if (wrong !== undefined) return undefined;
      return told(() => {
        laterPrecisionOf(settings, scheduleOf(settings));
        return undefined;
      });
    },
  },
  {
    reads: ["eval_precision", ...precisionKeys],
    mistake: (settings) =>
      planMistake(settings) === undefined
        ? told(() => {
            evalPrecisionsOf(settings);
            return undefined;
          })
        : undefined,
  },
  {
    reads: ["eval_precision", "dtype"],
    mistake: ({ eval_precision, dtype }) =>
      dtype === "bfloat16" || eval_precision === "same"
        ? undefined
        : `eval_precision=${eval_precision} with dtype=${dtype}: recipes compute in BF16; set dtype=bfloat16, or eval_precision=same`,
  },
];

/** What is wrong with the precision alone. */
function planMistake(settings: Settings): string | undefined {
  return told(() => {
    planOf(settings);
    return undefined;
  });
}

/** What a stage says against settings of its own. */
function told(check: () => string | undefined): string | undefined {
  try {
    return check();
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}
