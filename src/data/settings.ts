/** Settings of the data by their names on the command line. */
import { z } from "zod";
import { whole, wholeOrDerived } from "../base/settingKinds.ts";
import { packingChoices, resetChoices } from "./packingSettings.ts";

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
  packing: z
    .enum(packingChoices)
    .default("auto")
    .describe(
      "How documents fill sequences: concat = one stream, cut anywhere; best_fit = whole documents, as many as fit; none = one a sequence; auto = concat for text, best_fit for data with prompts",
    ),
  reset_attention_mask: z
    .enum(resetChoices)
    .default("auto")
    .describe(
      "Keep documents in a sequence apart: none attends to another, and positions restart at 0; auto = true but for text with packing=concat",
    ),
  max_segments_per_seq: wholeOrDerived()
    .default(-1)
    .describe("Documents in a sequence of packing=best_fit, at most; -1 = as many as fit"),
  max_target_length: whole(1).default(256).describe("Tokens in a training sequence"),
  per_device_batch_size: whole(1)
    .default(8)
    .describe("Sequences that a device computes at once: a step has gradient_accumulation_steps times as many"),
});
