/** `halfbyte tokenizer chat`: a conversation as its chat template writes it, with what is trained on marked. */
import { readFileSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { parseExactJson } from "../base/exactJson.ts";
import { parseValue } from "../config/index.ts";
import { documentOfRecord, listSourceFiles, type RecordDocument, readDocuments } from "../data/index.ts";
import { terminalAbilities } from "../metrics/index.ts";
import { chatExample, loadChatTemplate, loadTokenizer, type Tokenizer } from "../tokenizers/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { required } from "./tokenizerInput.ts";
import { markedText } from "./tokenPicture.ts";

type Conversation = Extract<RecordDocument, { kind: "chat" }>;

const keys = ["messages", "record", "tokenizer_path", "chat_template"];

export const command: Command = {
  help: `Usage: halfbyte tokenizer chat messages=FILE tokenizer_path=PATH [key=value …] [--json]

Shows a conversation as the tokenizer's chat template writes it. What is trained on, the assistant's tokens, is coloured, or
between [[ ]] where there are no colours.

  messages        a JSON file: [{"role": "user", "content": "…"}, …]; or what dataset_type=chat reads: JSON lines, also packed, or
                  Parquet, each record with such "messages" (or "conversations" of "from" and "value")
  record          which record (default 1)
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
    const { messages, tools } = await readConversation(file, record);
    const choice = settings.chat_template === undefined ? {} : { file: settings.chat_template };
    const template = loadChatTemplate(path, choice);
    const tokenizer = loadTokenizer(path);
    const { ids, mask } = chatExample(template, tokenizer, messages, tools === undefined ? {} : { tools });
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

/**
 * The conversation of a .json file that is one, or of a record of what dataset_type=chat reads.
 * @throws UserError where there is none
 */
async function readConversation(path: string, record: number): Promise<Conversation> {
  const refuse = (problem: string) => {
    throw new UserError("E_VALUE", `messages=${path}: ${problem}`);
  };
  const whole = /\.json$/i.test(path) ? wholeFile(path) : undefined;
  if (whole !== undefined) {
    const found = documentOfRecord(whole, "chat", []);
    return typeof found !== "string" && found.kind === "chat" ? found : refuse(String(found));
  }
  let seen = 0;
  let bad: string | undefined;
  const onBadRecord = (message: string) => {
    if (++seen === record) bad = message;
  };
  const files = listSourceFiles(path, { setting: "messages", kind: "chat" });
  for await (const part of readDocuments(files, { kind: "chat", columns: [], badRecords: "skip", onBadRecord })) {
    if (bad !== undefined) break;
    if (++seen === record && part.kind === "record" && part.document.kind === "chat") return part.document;
  }
  return bad === undefined ? refuse(`record=${record}: it has ${seen}`) : refuse(bad);
}

/** A list of messages, or an object with one, over as many lines as it likes; undefined for records a line. */
function wholeFile(path: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = parseExactJson(readFileSync(path, "utf8"));
    if (Array.isArray(value)) return { messages: value };
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined; // the reader of records tells what is wrong
  }
}
