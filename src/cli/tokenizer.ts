/** `halfbyte tokenizer`: learn a vocabulary, and look at what one makes of a text or a conversation. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import type { Command } from "./command.ts";

const topics = {
  train: async () => (await import("./tokenizerTrain.ts")).command,
  encode: async () => (await import("./tokenizerEncode.ts")).command,
  decode: async () => (await import("./tokenizerDecode.ts")).command,
  info: async () => (await import("./tokenizerInfo.ts")).command,
  chat: async () => (await import("./tokenizerChat.ts")).command,
} as const satisfies Command["topics"];

export const command: Command = {
  help: `Usage: halfbyte tokenizer VERB key=value … [--json]

  train   learn a byte-level BPE from text files
  encode  show a text's tokens and ids
  decode  show the text of ids
  info    show what a tokenizer holds: vocabulary, lengths of its tokens, control tokens, chat template
  chat    show a conversation as its chat template writes it, and which of its tokens are trained on

  halfbyte tokenizer VERB --help   its settings, with an example
  --json                           the same as JSON on standard output

Example: halfbyte tokenizer encode text="The capital of France is" tokenizer_path=books-tokenizer
`,
  topics,
  async run([verb = ""]) {
    const names = Object.keys(topics);
    const near = nearest(verb, names);
    const said = verb === "" ? "what to do is missing" : `unknown "${verb}"`;
    throw new UserError(
      "E_ARGUMENT",
      `${said}; ${near === undefined ? `known are ${names.join(", ")}` : `did you mean "${near}"?`}`,
    );
  },
};
