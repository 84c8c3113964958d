/** `halfbyte tokenizer decode`: the text of ids. */
import { UserError } from "../base/errors.ts";
import { loadTokenizer } from "../tokenizers/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { isOn, required } from "./tokenizerInput.ts";

const keys = ["ids", "tokenizer_path", "skip_control"];

export const command: Command = {
  help: `Usage: halfbyte tokenizer decode ids=ID,ID,… tokenizer_path=PATH [skip_control=true] [--json]

Shows the text of ids. Bytes that are part of a character are U+FFFD.

  ids                 ids with commas or spaces between them
  tokenizer_path      byte, a tokenizer.json, tokenizer.model or .gguf file, or a folder with one
  skip_control=true   leave control tokens out (default: spell them)
  --json              the text as one JSON object on standard output

Example: halfbyte tokenizer decode ids=504,3575,282,4649,314 tokenizer_path=SmolLM2-135M-Instruct.Q4_1.gguf
`,
  async run(args) {
    const { settings, flags } = parseArguments(args, { keys });
    const given = required(settings, "ids", "decode");
    const tokenizer = loadTokenizer(required(settings, "tokenizer_path", "decode"));
    const ids = given.split(/[\s,]+/).filter((part) => part !== "");
    const wrong = ids.find((part) => !/^\d+$/.test(part) || Number(part) >= tokenizer.vocabSize);
    if (wrong !== undefined) {
      throw new UserError(
        "E_VALUE",
        `ids: "${wrong}" is no id of this tokenizer; they are 0 to ${tokenizer.vocabSize - 1}`,
      );
    }
    const text = tokenizer.decode(ids.map(Number), { skipControl: isOn(settings, "skip_control") });
    process.stdout.write(flags.has("json") ? `${JSON.stringify({ text })}\n` : `${text}\n`);
    return 0;
  },
};
