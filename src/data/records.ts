/** Records of JSON Lines or Parquet, and what of them is the document. */
import { UserError } from "../base/errors.ts";
import { shown } from "../base/exactJson.ts";
import type { ChatMessage } from "../tokenizers/chatTemplate.ts";

/** What was read at a place of a file ("line 3", "row 3"), or why it can't be used. */
export type ReadRecord =
  | { readonly place: string; readonly value: Readonly<Record<string, unknown>>; readonly problem?: undefined }
  | { readonly place: string; readonly problem: string };

/** What a record holds. */
export type RecordKind = "text" | "completion" | "chat";

/** The document of a record. */
export type RecordDocument =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "completion"; readonly prompt: string; readonly completion: string }
  | { readonly kind: "chat"; readonly messages: readonly ChatMessage[]; readonly tools?: readonly unknown[] };

/** Names that each kind is known by, the usual one first; of a completion, the prompt and then what follows it. */
const usualColumns: Readonly<Record<RecordKind, readonly (readonly string[])[]>> = {
  text: [["text"]],
  completion: [
    ["prompt", "completion"],
    ["input", "output"],
    ["question", "answer"],
  ],
  chat: [["messages"], ["conversations"]],
};

/** The columns that a setting names, separated by commas. @throws UserError where a kind has another number of them */
export function parseColumns(text: string, kind: RecordKind): string[] {
  const names = text.split(",").flatMap((name) => name.trim() || []);
  const wanted = usualColumns[kind][0]!.length;
  if (names.length === 0 || names.length === wanted) return names;
  throw new UserError(
    "E_DATASET_COLUMN",
    `train_data_columns=${text}: dataset_type=${kind} takes ${wanted === 1 ? "one column" : "two columns, the prompt's and the completion's"}`,
  );
}

/** The sets of columns that a record may have: those that were named, or else the usual ones. */
export function columnChoices(kind: RecordKind, named: readonly string[]): readonly (readonly string[])[] {
  return named.length > 0 ? [named] : usualColumns[kind];
}

/** Every column that is to be read of a file with columns. */
export function columnsToRead(kind: RecordKind, named: readonly string[]): string[] {
  return [...columnChoices(kind, named).flat(), ...(kind === "chat" ? ["tools"] : [])];
}

/** @returns the document, or what is wrong with the record in words */
export function documentOfRecord(
  record: Readonly<Record<string, unknown>>,
  kind: RecordKind,
  named: readonly string[],
): RecordDocument | string {
  const choices = columnChoices(kind, named);
  const columns = choices.find((names) => names.some((name) => Object.hasOwn(record, name)));
  if (columns === undefined) return missing(record, kind, choices);
  for (const name of columns) if (!Object.hasOwn(record, name)) return missing(record, kind, [columns]);
  if (kind === "chat") return chatOf(record, columns[0]!);
  const texts = columns.map((name) => record[name]);
  const bad = columns.find((_, i) => typeof texts[i] !== "string");
  if (bad !== undefined) return `"${bad}" is ${shown(record[bad])}, and must be text`;
  const [first, second] = (texts as string[]).map(withoutMark) as [string, string];
  return kind === "text" ? { kind, text: first } : { kind, prompt: first, completion: second };
}

/** A byte order mark at the beginning is no text, as in a plain file: it is left over from the file that a record was made of. */
const withoutMark = (text: string): string => (text.startsWith("\ufeff") ? text.slice(1) : text);

function missing(
  record: Readonly<Record<string, unknown>>,
  kind: RecordKind,
  choices: readonly (readonly string[])[],
): string {
  const wanted = choices.map((names) => names.map((name) => `"${name}"`).join(" and ")).join(", or ");
  const names = Object.keys(record);
  const has =
    names.length === 0
      ? "it is empty"
      : `it has ${names
          .slice(0, 8)
          .map((name) => `"${name}"`)
          .join(", ")}`;
  const other = (["text", "completion", "chat"] as const).find(
    (other) => other !== kind && usualColumns[other].some((columns) => columns.every((name) => names.includes(name))),
  );
  const fix = other === undefined ? "train_data_columns names others" : `dataset_type=${other} reads such records`;
  return `no ${wanted}: ${has}; ${fix}`;
}

/** ShareGPT's names for those who speak. */
const roles: Readonly<Record<string, string>> = { human: "user", gpt: "assistant", system: "system", tool: "tool" };

function chatOf(record: Readonly<Record<string, unknown>>, column: string): RecordDocument | string {
  const list = record[column];
  if (!Array.isArray(list) || list.length === 0) return `"${column}" is ${shown(list)}, and must be a list of messages`;
  const messages: ChatMessage[] = [];
  for (const [i, turn] of list.entries()) {
    const message = messageOf(turn);
    if (message === undefined) {
      return `message ${i + 1} of "${column}" is ${shown(turn)}, and must have "role" and "content" ("from" and "value")`;
    }
    messages.push(message);
  }
  const { tools } = record;
  return { kind: "chat", messages, ...(Array.isArray(tools) && tools.length > 0 && { tools }) };
}

function messageOf(turn: unknown): ChatMessage | undefined {
  if (typeof turn !== "object" || turn === null) return undefined;
  const { role, from, value, ...rest } = turn as Record<string, unknown>;
  if (typeof role === "string") {
    const { content } = rest;
    return {
      ...{ role, ...(value !== undefined && { value }), ...rest },
      ...(typeof content === "string" && { content: withoutMark(content) }),
    };
  }
  if (typeof from !== "string" || typeof value !== "string") return undefined;
  return { role: Object.hasOwn(roles, from) ? roles[from]! : from, content: withoutMark(value) };
}
