/** `halfbyte tokenizer chat`: a conversation as its chat template writes it, with what is trained on marked. */
import { readFileSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { reasonOf } from "../checkpoint/index.ts";
import { parseValue } from "../config/index.ts";
import { type ChatMessage, chatExample, loadChatTemplate, loadTokenizer, type Tokenizer } from "../data/index.ts";
import { terminalAbilities } from "../metrics/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { required } from "./tokenizerInput.ts";
import { markedText } from "./tokenPicture.ts";

const keys = ["messages", "record", "tokenizer_path", "chat_template"];

export const command: Command = {
  help: `Usage: halfbyte tokenizer chat messages=FILE tokenizer_path=PATH [key=value …] [--json]

Shows a conversation as the tokenizer's chat template writes it. What is trained on, the assistant's tokens, is coloured, or
between [[ ]] where there are no colours.

  messages        a JSON file: [{"role": "user", "content": "…"}, …]; or JSON lines, each with such "messages"
  record          which line of JSON lines (default 1)
  tokenizer_path  a tokenizer with a chat template: a folder, a tokenizer.json or a .gguf file
  chat_template   a .jinja file to use instead of the tokenizer's own
  --json          text, ids and mask as one JSON object on standard output

Example: halfbyte tokenizer chat messages=chats.jsonl record=3 tokenizer_path=SmolLM2-135M-Instruct.Q4_1.gguf
`,
  async run(args) {
    const { settings, flags } = parseArguments(args, { keys });
    const path = required(settings, "tokenizer_path", "chat");
    const file = required(settings, "messages", "chat");
    const record = settings.record === undefined ? 1 : (parseValue("record", settings.record, "integer") as number);
    const messages = readMessages(file, record);
    const choice = settings.chat_template === undefined ? {} : { file: settings.chat_template };
    const template = loadChatTemplate(path, choice);
    const tokenizer = loadTokenizer(path);
    const { ids, mask } = chatExample(template, tokenizer, messages);
    const trained = mask.reduce((sum, one) => sum + one, 0);
    if (flags.has("json")) {
      const result = { text: tokenizer.decode(ids), ids: [...ids], mask: [...mask], tokens: ids.length, trained };
      process.stdout.write(`${JSON.stringify(result)}\n`);
      return 0;
    }
    const text = markedText(runsOf(tokenizer, ids, mask), terminalAbilities(process.stdout).colour);
    process.stdout.write(
      `${text}${text.endsWith("\n") ? "" : "\n"}\n${ids.length} tokens, ${trained} of them trained on\n`,
    );
    return 0;
  },
};

/** Neighbouring tokens that are trained on, or not. */
function runsOf(tokenizer: Tokenizer, ids: Int32Array, mask: Uint8Array) {
  const runs: { text: string; on: boolean }[] = [];
  for (let start = 0, end = 0; start < ids.length; start = end) {
    while (end < ids.length && mask[end] === mask[start]) end++;
    runs.push({ text: tokenizer.decode(ids.subarray(start, end)), on: mask[start] === 1 });
  }
  return runs;
}

function readMessages(file: string, record: number): readonly ChatMessage[] {
  const refuse = (problem: string) => {
    throw new UserError("E_VALUE", `messages=${file}: ${problem}`);
  };
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    return refuse(reasonOf(error));
  }
  const whole = parsed(text);
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (whole === undefined && (record < 1 || record > lines.length)) refuse(`record=${record}: it has ${lines.length}`);
  const value = whole ?? parsed(lines[record - 1]!);
  const messages = Array.isArray(value) ? value : (value as { messages?: unknown } | undefined)?.messages;
  const isMessage = (one: unknown) => typeof (one as { role?: unknown } | null)?.role === "string";
  return Array.isArray(messages) && messages.length > 0 && messages.every(isMessage)
    ? messages
    : refuse(`no messages, each {"role": …, "content": …}${whole === undefined ? ` in line ${record}` : ""}`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
