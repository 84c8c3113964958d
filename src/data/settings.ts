/** Settings of the data by their names on the command line. */
import { z } from "zod";
import { whole, wholeOrDerived } from "../base/settingKinds.ts";
import { packingChoices, resetChoices } from "./packingSettings.ts";

export const dataSettings = z.object({
  dataset_type: z
    .enum(["text", "completion", "chat", "tokens", "megatron", "synthetic"])
    .default("text")
    .describe(
      "What files hold. text: plain text, or records with a text; completion: records with a prompt and what follows it; chat: records with messages; tokens: .bin files of ids; megatron: .bin with .idx; synthetic: a Markov chain, learnable without any file",
    ),
  dataset_path: z
    .string()
    .default("")
    .describe(
      "Training data: a file, a folder or a pattern (.txt, .md, .jsonl, .parquet; also .gz and .zst), or several as PATH,WEIGHT;PATH,WEIGHT",
    ),
  eval_dataset_path: z.string().default("").describe("Validation data, of the same kinds; empty for none"),
  train_data_columns: z
    .string()
    .default("")
    .describe(
      "Names of what a record has its document in, such as text, or input,output; empty for the usual ones: text; prompt and completion, input and output, question and answer; messages, conversations",
    ),
  dataset_bad_records: z
    .enum(["stop", "skip"])
    .default("stop")
    .describe("Where a record can't be used: stop and say which and why, or leave it out and count it"),
  dataset_token_dtype: z
    .enum(["auto", "uint16", "uint32"])
    .default("auto")
    .describe(
      "How the ids of dataset_type=tokens are stored, little-endian; auto = uint16 for vocabularies of up to 65,536",
    ),
  tokenize_workers: z
    .number()
    .int()
    .min(-1)
    .max(64)
    .default(-1)
    .describe(
      "Threads that tokenise; 0 for none of their own, -1 for as many as the machine and the size of the data are worth",
    )
    .meta({ rule: "an integer from 0 to 64, or -1" }),
  validation_fraction: z
    .number()
    .min(0)
    .lt(1)
    .default(0)
    .describe("Share of the training data to hold out for validation: whole documents, or the end of a single one"),
  tokenizer_path: z
    .string()
    .min(1)
    .default("byte")
    .describe("byte, or a tokenizer.json, tokenizer.model or .gguf file, or the folder that has one")
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
