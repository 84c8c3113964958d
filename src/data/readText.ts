/** Text files, packed or not, as a stream of parts: memory stays flat whatever the size. */
import { UserError } from "../base/errors.ts";
import { type FileBytesOptions, fileBytes } from "./fileBytes.ts";
import type { SourceFile } from "./sourceFiles.ts";

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
    let bytes = 0;
    let any = false;
    const decode = (chunk?: Uint8Array): string => {
      try {
        return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
      } catch {
        throw notUtf8(path, bytes, chunk);
      }
    };
    for await (const chunk of fileBytes(path, options)) {
      const fresh = decode(chunk);
      bytes += chunk.length;
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

function notUtf8(path: string, offset: number, chunk: Uint8Array | undefined): UserError {
  const mark = offset === 0 && chunk !== undefined ? (chunk[0]! << 8) | chunk[1]! : 0;
  const utf16 = mark === 0xfeff || mark === 0xfffe;
  const place = offset === 0 ? "" : ` after byte ${offset}`;
  const fix = utf16
    ? `it looks like UTF-16: iconv -f UTF-16 -t UTF-8 ${path}`
    : `convert it, for example: iconv -f WINDOWS-1252 -t UTF-8 ${path}`;
  return new UserError("E_DATASET_UTF8", `${path}: not UTF-8 text${place}; ${fix}`);
}

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
