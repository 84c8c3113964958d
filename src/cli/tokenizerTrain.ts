/** `halfbyte tokenizer train`: learns a byte-level BPE from text files and writes it as a Hugging Face tokenizer. */
import { accessSync, constants, mkdirSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { reasonOf } from "../base/systemReason.ts";
import { parseValue } from "../config/index.ts";
import { trainingTexts } from "../data/index.ts";
import { loadTokenizer, saveTokenizer, smallestVocab, trainBpe } from "../tokenizers/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { progressLine } from "./progressLine.ts";
import { required } from "./tokenizerInput.ts";

const keys = [
  ...["dataset_path", "dataset_type", "train_data_columns", "dataset_bad_records"],
  ...["validation_fraction", "vocab_size", "output"],
];

export const command: Command = {
  help: `Usage: halfbyte tokenizer train dataset_path=PATH output=FOLDER [key=value …] [--json]

Learns a byte-level BPE vocabulary and writes FOLDER/tokenizer.json, which Hugging Face's tools read too.
Tokenizers of other models need no training: tokenizer_path of \`halfbyte train\` reads them as they are.

  dataset_path          what \`halfbyte train\` reads: a file, a folder or a pattern such as 'books/**/*.txt'
  dataset_type          what it holds: text (default), or records that are a completion or a chat
  train_data_columns    what records have their text in (default text; \`halfbyte explain train_data_columns\`)
  dataset_bad_records   skip leaves out records that can't be used (default stop)
  output                the folder to write
  vocab_size            number of tokens, with 256 bytes and the end of a document (default 4096)
  validation_fraction   leave out the documents that training with this fraction holds out (default 0)
  --json                the result as one JSON object on standard output

Example: halfbyte tokenizer train dataset_path=books vocab_size=4096 output=books-tokenizer
Then:    halfbyte train llama-tiny dataset_path=books tokenizer_path=books-tokenizer
`,
  async run(args) {
    const { settings, flags } = parseArguments(args, { keys });
    const datasetPath = required(settings, "dataset_path", "train");
    const output = required(settings, "output", "train");
    const number = (key: string, fallback: number, kind: "integer" | "number") => {
      const text = settings[key];
      return text === undefined ? fallback : (parseValue(key, text, kind) as number);
    };
    const choice = <T extends string>(key: string, known: readonly T[]): T => {
      const value = settings[key] ?? known[0]!;
      if (!known.includes(value as T)) throw new UserError("E_VALUE", `${key}=${value}: must be ${known.join(", ")}`);
      return value as T;
    };
    const vocabSize = number("vocab_size", 4096, "integer");
    if (vocabSize < smallestVocab) {
      throw new UserError("E_VOCAB_SIZE", `vocab_size=${vocabSize}: must be ${smallestVocab} or more`);
    }
    const validationFraction = number("validation_fraction", 0, "number");
    if (!(validationFraction >= 0 && validationFraction < 1)) {
      throw new UserError("E_VALUE", `validation_fraction=${validationFraction}: must be from 0 to below 1`);
    }

    const text = await trainingTexts({
      ...{ datasetPath, evalDatasetPath: "", validationFraction },
      datasetType: choice("dataset_type", ["text", "completion", "chat"]),
      trainDataColumns: settings.train_data_columns ?? "",
      datasetBadRecords: choice("dataset_bad_records", ["stop", "skip"]),
    });
    makeOutput(output);
    const start = performance.now();
    const progress = progressLine();
    const model = await trainBpe(text.texts(), vocabSize, {
      onProgress: ({ tokens, of }) => progress.show(`token ${tokens} of ${of}`),
    });
    progress.clear();
    saveTokenizer(model, output);

    const tokenizer = loadTokenizer(output);
    let bytes = 0;
    let tokens = 0;
    for await (const piece of text.texts()) {
      bytes += Buffer.byteLength(piece);
      tokens += tokenizer.encode(piece).length;
    }
    const result = {
      output,
      vocabSize: tokenizer.vocabSize,
      documents: text.documents,
      badRecords: text.badRecords.count,
      bytes,
      tokens,
      bytesPerToken: bytes / tokens,
      seconds: (performance.now() - start) / 1000,
      hash: tokenizer.hash,
    };
    if (flags.has("json")) process.stdout.write(`${JSON.stringify(result)}\n`);
    else {
      process.stdout.write(
        `${output}: ${result.vocabSize} tokens from ${text.documents} documents (${(bytes / 1e6).toFixed(1)} MB) in ${result.seconds.toFixed(1)} s\n` +
          `the text is ${tokens} tokens, ${result.bytesPerToken.toFixed(2)} bytes each\n`,
      );
      const { count, first } = text.badRecords;
      if (count > 0) process.stdout.write(`${count} records are left out; the first: ${first}\n`);
      if (result.vocabSize < vocabSize) {
        process.stdout.write(`fewer than vocab_size=${vocabSize}: no other pair of tokens occurs twice in this text\n`);
      }
    }
    return 0;
  },
};

/** Makes the folder before an hour of work is done for it. */
function makeOutput(output: string): void {
  try {
    mkdirSync(output, { recursive: true });
    accessSync(output, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new UserError(
      "E_OUTPUT",
      `output=${output}: no folder can be written there (${reasonOf(error)}); choose another`,
    );
  }
}
