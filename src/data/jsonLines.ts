/** JSON Lines: a record a line. Blank lines, a byte order mark, CR LF and a missing last line end are no faults. */
import { UserError } from "../base/errors.ts";
import { parseExactJson, shown } from "../base/exactJson.ts";
import { parseJson } from "../base/json.ts";
import { type FileBytesOptions, fileBytes } from "./fileBytes.ts";
import type { ReadRecord } from "./records.ts";
import { utf8Length } from "./utf8Length.ts";

const lineEnd = 0x0a;
/** A line is held in memory whole. */
const longestLine = 1 << 28;

export interface JsonLinesOptions extends FileBytesOptions {
  /** Numbers as Python reads them (exactJson.ts), for what is written out again. Default: false. */
  readonly exact?: boolean;
}

/** @throws UserError where the file can't be read, or a line is longer than 256 MiB; what is wrong in a line is told as a problem */
export async function* jsonLines(path: string, options: JsonLinesOptions = {}): AsyncGenerator<ReadRecord> {
  const parse = options.exact ? parseExactJson : parseJson;
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let line = 0;
  for await (const bytes of lines(path, options)) {
    line++;
    const place = `line ${line}`;
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch {
      yield { place, problem: `not UTF-8 from byte ${utf8Length(bytes)} of the line on` };
      continue;
    }
    if (line === 1) text = text.replace(/^\ufeff/, "");
    if (text.trim() === "") continue;
    let value: unknown;
    try {
      value = parse(text);
    } catch (error) {
      yield { place, problem: notJson(text, error as Error) };
      continue;
    }
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      yield { place, value: value as Record<string, unknown> };
    } else yield { place, problem: noObject(value) };
  }
}

function notJson(text: string, { message }: Error): string {
  return `not JSON (${message})${text.trimStart().startsWith("[") ? listFix : ""}`;
}

const listFix = '; a file that is one JSON list becomes lines by: jq -c ".[]"';

const noObject = (value: unknown): string =>
  Array.isArray(value) ? `a list is no JSON object${listFix}` : `${shown(value)} is no JSON object`;

async function* lines(path: string, options: FileBytesOptions): AsyncGenerator<Uint8Array> {
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  for await (const chunk of fileBytes(path, options)) {
    let start = 0;
    for (let end = chunk.indexOf(lineEnd); end >= 0; end = chunk.indexOf(lineEnd, start)) {
      const rest = chunk.subarray(start, end);
      yield pending.length === 0 ? rest : Buffer.concat([...pending, rest]);
      [pending, pendingBytes] = [[], 0];
      start = end + 1;
    }
    if (start === chunk.length) continue;
    pending.push(chunk.subarray(start));
    pendingBytes += chunk.length - start;
    if (pendingBytes > longestLine) {
      throw new UserError("E_DATASET_READ", `${path}: a line is longer than 256 MiB; a record is one line of JSON`);
    }
  }
  if (pendingBytes > 0) yield Buffer.concat(pending);
}
