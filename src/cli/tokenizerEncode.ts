/** `halfbyte tokenizer encode`: a text's tokens and ids. */

import { terminalAbilities } from "../metrics/index.ts";
import { loadTokenizer } from "../tokenizers/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { givenText, isOn, required } from "./tokenizerInput.ts";
import { shownPiece, tokenPicture } from "./tokenPicture.ts";

const keys = ["text", "tokenizer_path", "control", "framed"];

/** Most tokens drawn; --json has all. */
const mostDrawn = 400;

export const command: Command = {
  help: `Usage: halfbyte tokenizer encode text=TEXT tokenizer_path=PATH [key=value …] [--json]

Shows the tokens of a text, each above its id.

  tokenizer_path  byte, a tokenizer.json, tokenizer.model or .gguf file, or a folder with one
  text            the text; - for what comes on standard input
  control=true    the spellings of control tokens in the text are those tokens (default: ordinary characters)
  framed=true     with the tokens that the tokenizer itself puts around a text, such as <|begin_of_text|>
  --json          ids and pieces as one JSON object on standard output

Example: halfbyte tokenizer encode text="naïve café <|eot_id|>" control=true tokenizer_path=llama3/tokenizer.model
`,
  async run(args) {
    const { settings, flags } = parseArguments(args, { keys });
    const tokenizer = loadTokenizer(required(settings, "tokenizer_path", "encode"));
    const text = givenText(settings);
    const ids = tokenizer.encode(text, { control: isOn(settings, "control"), framed: isOn(settings, "framed") });
    const tokens = Array.from(ids, (id) => ({ id, bytes: tokenizer.bytesOf(id) }));
    const bytes = Buffer.byteLength(text);
    if (flags.has("json")) {
      const pieces = tokens.map((token) => shownPiece(token.bytes));
      const result = { ids: [...ids], pieces, tokens: ids.length, bytes, bytesPerToken: bytes / ids.length || null };
      process.stdout.write(`${JSON.stringify(result)}\n`);
      return 0;
    }
    const lines = tokenPicture(tokens.slice(0, mostDrawn), terminalAbilities(process.stdout));
    if (tokens.length > mostDrawn) lines.push(`… and ${tokens.length - mostDrawn} more (--json has all)`, "");
    const each = ids.length === 0 ? "" : `, ${(bytes / ids.length).toFixed(2)} bytes each`;
    const listed = ids.length <= 64 ? `ids=${ids.join(",")}\n` : "";
    process.stdout.write(
      `${lines.join("\n")}${lines.length > 0 ? "\n" : ""}${listed}${ids.length} tokens, ${bytes} bytes${each}\n`,
    );
    return 0;
  },
};
