/** Settings of a run by their names on the command line: where it lies, how long it is, when it saves, its seeds. */
import { z } from "zod";
import { seed, whole, wholeOrDerived } from "../base/settingKinds.ts";

export const runSettings = z.object({
  run_name: z
    .string()
    .regex(/^([A-Za-z0-9][\w.-]*)?$/)
    .default("")
    .describe("Folder of the run below base_output_directory; empty = made from precision and time of start")
    .meta({ rule: "letters, digits, _ . -, beginning with a letter or digit" }),
  base_output_directory: z.string().min(1).default("runs").describe("Folder of all runs").meta({ rule: "a path" }),
  hardware: z
    .enum(["any", "cpu", "gpu"])
    .default("any")
    .describe("What the PJRT plugin must run on; a run is refused on anything else"),
  steps: whole(1).default(1000).describe("Training steps"),
  eval_interval: wholeOrDerived().default(-1).describe("Steps between validations; -1 = only after the last step"),
  eval_steps: wholeOrDerived().default(-1).describe("Batches of a validation; -1 = all"),
  enable_checkpointing: z.boolean().default(true).describe("Save checkpoints, and resume from the newest"),
  checkpoint_period: whole(1).default(500).describe("Steps between checkpoints; one is saved at the end in any case"),
  max_num_checkpoints_to_keep: wholeOrDerived().default(3).describe("Older checkpoints are deleted; -1 = keep all"),
  checkpoint_keep_period: wholeOrDerived()
    .default(-1)
    .describe(
      "Checkpoints of every so many steps are never deleted, a multiple of checkpoint_period; -1 = none of them",
    ),
  keep_best_checkpoint: z
    .boolean()
    .default(true)
    .describe(
      "Never delete the checkpoint with the lowest validation loss, of the steps that were both saved and validated; the run's folder has a link to it, best",
    ),
  load_parameters_path: z
    .string()
    .default("")
    .describe(
      "Weights to begin with: a run's folder (its newest checkpoint), a step's folder, a Hugging Face folder or a GGUF file; the optimizer and the step count begin anew",
    )
    .meta({ rule: "a path, or empty" }),
  load_full_state_path: z
    .string()
    .default("")
    .describe(
      "Whole state to begin with, of another run: weights, optimizer, loss scale, scales of delayed scaling, steps done. A run's folder (its newest checkpoint) or a step's; any setting but the model's sizes may differ",
    )
    .meta({ rule: "a path, or empty" }),
  init_weights_seed: seed().default(0).describe("Decides the initial weights"),
  data_shuffle_seed: seed().default(0).describe("Decides the order of the training sequences"),
  rounding_seed: seed().default(0).describe("Decides the draws of stochastic rounding"),
  max_skipped_steps: whole(1)
    .default(10)
    .describe("Steps in a row that may be skipped because something in them was not finite; after them the run fails"),
  telemetry_period: whole(0)
    .default(0)
    .describe(
      "Steps between measurements of what quantization does to each linear layer's tensors; the last step is measured too; each takes about three steps' time; 0 = none",
    ),
  telemetry_gradient_cosine: z
    .boolean()
    .default(true)
    .describe("Compare the gradients of measured steps with those of BF16 from the same weights and tokens"),
  profiler: z
    .enum(["", "trace"])
    .default("")
    .describe(
      "trace writes the run's trace.json: where the host's time goes in some steps (data, dispatch, wait, save, evaluate); xplane and nsys look inside XLA and the driver, which is not built",
    )
    .meta({ rule: "trace, or empty" }),
  skip_first_n_steps_for_profiler: whole(0).default(1).describe("Steps that profiler leaves out at the beginning"),
  profiler_steps: whole(1).default(5).describe("Steps that profiler traces"),
  log_period: whole(1).default(1).describe("Steps between lines on the console; events hold every step"),
});
