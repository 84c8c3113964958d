/** Text files, packed or not, as a stream of parts: memory stays flat whatever the size. */
import { UserError } from "../base/errors.ts";
import { compressionOf, type FileBytesOptions, fileBytes } from "./fileBytes.ts";
import type { SourceFile } from "./sourceFiles.ts";
import { utf8Length } from "./utf8Length.ts";

export interface TextPart {
  /** Index of the document in the list that was given. */
  readonly document: number;
  readonly text: string;
  /** The document ends with this part. */
  readonly last: boolean;
}

const longestPart = 1 << 24; // UTF-16 units; text without a safe place to cut is cut here all the same

export interface ReadTextOptions extends FileBytesOptions {
  /** Documents come in one part each, for tokenizers whose tokens cross the places to cut. Default: false. */
  readonly whole?: boolean;
}

/**
 * The documents' text in order. Parts are cut where no pre-token can cross (between a letter and a space before a
 * letter), so tokenising the parts is tokenising the document. A byte order mark is no text; a document without text
 * yields nothing.
 * @throws UserError where a file is not UTF-8, can't be read or is longer than a part that must be whole
 */
export async function* readTextParts(
  files: readonly Pick<SourceFile, "path">[],
  { whole = false, ...options }: ReadTextOptions = {},
): AsyncGenerator<TextPart> {
  for (const [document, { path }] of files.entries()) {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let pending: string[] = []; // joined when they are cut only: each character is copied once
    let length = 0;
    let tail = ""; // the last two characters of pending
    const read: ReadSoFar = { bytes: 0, lines: 1, recent: new Uint8Array() };
    let any = false;
    const decode = (chunk?: Uint8Array): string => {
      try {
        return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
      } catch {
        throw notUtf8(path, read, chunk);
      }
    };
    for await (const chunk of fileBytes(path, options)) {
      const fresh = decode(chunk);
      read.bytes += chunk.length;
      read.lines += linesIn(chunk);
      read.recent = lastBytes(read.recent, chunk);
      const recent = tail + fresh;
      const place = whole ? 0 : placeToCut(recent);
      const cut = place > 0 ? length - tail.length + place : 0;
      pending.push(fresh);
      length += fresh.length;
      tail = recent.slice(-2);
      if (whole && length > longestPart) throw tooLong(path);
      if (cut > 0 || (!whole && length >= longestPart)) {
        const text = pending.join("");
        const end = cut > 0 ? cut : endWithin(text, longestPart);
        any = true;
        yield { document, text: text.slice(0, end), last: false };
        pending = [text.slice(end)];
        length -= end;
        tail = tail.slice(-length || 2);
      }
    }
    const rest = pending.join("") + decode();
    if (any || rest !== "") yield { document, text: rest, last: true };
  }
}

function tooLong(path: string): UserError {
  return new UserError(
    "E_DATASET_READ",
    `${path}: longer than ${longestPart.toLocaleString("en")} characters, and the tokenizer does not cut text at spaces, so that a document is encoded whole; make several files of it, or records of JSON Lines`,
  );
}

/** What was read of a file and is UTF-8, but for a character that its last bytes may begin. */
interface ReadSoFar {
  bytes: number;
  /** The line that goes on, from 1. */
  lines: number;
  /** The last three bytes: no more are open. */
  recent: Uint8Array;
}

function notUtf8(path: string, { bytes, lines, recent }: ReadSoFar, chunk: Uint8Array = new Uint8Array()): UserError {
  const isInside = (byte: number) => (byte & 0xc0) === 0x80;
  const begin = recent.findIndex((byte) => !isInside(byte));
  const open = begin < 0 ? new Uint8Array() : recent.subarray(begin);
  const unread = Buffer.concat([open, chunk]);
  const good = utf8Length(unread);
  const offset = bytes - open.length + good;
  const line = lines - linesIn(open) + linesIn(unread.subarray(0, good));
  const mark = offset === 0 ? ((unread[0] ?? 0) << 8) | (unread[1] ?? 0) : 0;
  const utf16 = mark === 0xfeff || mark === 0xfffe;
  const place = `byte ${offset}${compressionOf(path) === undefined ? "" : " of what is packed"} (line ${line})`;
  const shown = [...unread.subarray(good, good + 4)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const fix = utf16
    ? `it looks like UTF-16: iconv -f UTF-16 -t UTF-8 ${path}`
    : `convert it, for example: iconv -f WINDOWS-1252 -t UTF-8 ${path}`;
  return new UserError("E_DATASET_UTF8", `${path}: not UTF-8 text: ${place} begins no character (${shown}); ${fix}`);
}

function linesIn(bytes: Uint8Array): number {
  let lines = 0;
  for (let i = bytes.indexOf(0x0a); i >= 0; i = bytes.indexOf(0x0a, i + 1)) lines++;
  return lines;
}

const lastBytes = (before: Uint8Array, chunk: Uint8Array): Uint8Array =>
  Uint8Array.from(chunk.length >= 3 ? chunk.subarray(-3) : [...before, ...chunk].slice(-3));

const isLetter = (code: number) => (code >= 97 && code <= 122) || (code >= 65 && code <= 90);

/** Where a text may be cut, as near its end as possible; 0 for nowhere. */
function placeToCut(text: string): number {
  for (let i = text.lastIndexOf(" ", text.length - 2); i > 0; i = text.lastIndexOf(" ", i - 1)) {
    if (isLetter(text.charCodeAt(i - 1)) && isLetter(text.charCodeAt(i + 1))) return i;
  }
  return 0;
}

/** `end`, or the place before it where it would part a surrogate pair. */
const endWithin = (text: string, end: number) => ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800 ? end - 1 : end);
