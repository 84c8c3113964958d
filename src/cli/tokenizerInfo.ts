/** `halfbyte tokenizer info`: what a tokenizer holds. */

import { terminalAbilities } from "../metrics/index.ts";
import {
  type ChatTemplate,
  findChatTemplate,
  loadTokenizer,
  type Tokenizer,
  tokenizerFormat,
} from "../tokenizers/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { required } from "./tokenizerInput.ts";
import { shownPiece } from "./tokenPicture.ts";

export const command: Command = {
  help: `Usage: halfbyte tokenizer info tokenizer_path=PATH [--json]

Shows what a tokenizer holds: the size of its vocabulary, how long its tokens are, its control tokens, what it puts around a
text, and whether it has a chat template.

  tokenizer_path  byte, a tokenizer.json, tokenizer.model or .gguf file, or a folder with one
  --json          the same as one JSON object on standard output

Example: halfbyte tokenizer info tokenizer_path=books-tokenizer
`,
  async run(args) {
    const { settings, flags } = parseArguments(args, { keys: ["tokenizer_path"] });
    const path = required(settings, "tokenizer_path", "info");
    const facts = factsOf(path, loadTokenizer(path), findChatTemplate(path));
    process.stdout.write(flags.has("json") ? `${JSON.stringify(facts)}\n` : `${asText(facts).join("\n")}\n`);
    return 0;
  },
};

function factsOf(path: string, tokenizer: Tokenizer, template: ChatTemplate | undefined) {
  const all = Array.from({ length: tokenizer.vocabSize }, (_, id) => id);
  const control = all.filter((id) => tokenizer.isControl(id));
  const ordinary = all.filter((id) => !tokenizer.isControl(id) && tokenizer.bytesOf(id).length > 0);
  const lengths: number[] = [];
  for (const id of ordinary) {
    const length = tokenizer.bytesOf(id).length;
    lengths[length] = (lengths[length] ?? 0) + 1;
  }
  const spell = (id: number) => shownPiece(tokenizer.bytesOf(id));
  const longest = ordinary.reduce(
    (best, id) => (tokenizer.bytesOf(id).length > tokenizer.bytesOf(best).length ? id : best),
    ordinary[0]!,
  );
  return {
    path,
    format: tokenizerFormat(path),
    vocabSize: tokenizer.vocabSize,
    ordinaryTokens: ordinary.length,
    controlTokens: control.map(spell),
    endOfDocument: spell(tokenizer.eosId),
    before: tokenizer.frame.before.map(spell),
    after: tokenizer.frame.after.map(spell),
    longest: spell(longest),
    /** Tokens by their bytes: index 1 for tokens of one byte. */
    tokensByBytes: Array.from(lengths, (count) => count ?? 0),
    chatTemplate: template === undefined ? null : { origin: template.origin, marksAssistant: template.marksAssistant },
    hash: tokenizer.hash,
  };
}

/** Lengths drawn one by one; the longer ones are one line. */
const mostLengths = 16;

function asText(facts: ReturnType<typeof factsOf>): string[] {
  const list = (names: readonly string[]) =>
    names.length === 0 ? "none" : `${names.slice(0, 8).join(" ")}${names.length > 8 ? ` … (${names.length})` : ""}`;
  const { chatTemplate, tokensByBytes } = facts;
  const template =
    chatTemplate === null
      ? "none"
      : `${chatTemplate.origin}; what the assistant says by ${chatTemplate.marksAssistant ? "its generation tags" : "rendering prefixes"}`;
  const rows: [string, string][] = [
    ["format", facts.format],
    ["vocabulary", `${facts.vocabSize} ids: ${facts.ordinaryTokens} of text, ${facts.controlTokens.length} control`],
    ["end of document", facts.endOfDocument],
    ["before a text", list(facts.before)],
    ["after a text", list(facts.after)],
    ["control tokens", list(facts.controlTokens)],
    ["longest token", facts.longest],
    ["chat template", template],
    ["hash", facts.hash.slice(0, 16)],
  ];
  return [
    ...rows.map(([name, value]) => `${name.padEnd(16)} ${value}`),
    "",
    "tokens by their bytes",
    ...bars(tokensByBytes),
  ];
}

function bars(tokensByBytes: readonly number[]): string[] {
  const { width, ascii } = terminalAbilities(process.stdout);
  const rows = tokensByBytes.slice(1, mostLengths).map((count, i): [string, number] => [String(i + 1), count]);
  const beyond = tokensByBytes.slice(mostLengths).reduce((sum, count) => sum + count, 0);
  if (beyond > 0) rows.push([`≥ ${mostLengths}`, beyond]);
  const most = Math.max(1, ...rows.map(([, count]) => count));
  return rows.map(([name, count]) => {
    const bar = (ascii ? "#" : "█").repeat(Math.round((count / most) * (width - 20)));
    return `${name.padStart(5)} ${String(count).padStart(7)} ${bar}`.trimEnd();
  });
}
