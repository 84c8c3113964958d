/** Tokens as people see them: each piece of text above its id, or a text with some of its tokens marked. */

export interface ShownToken {
  readonly id: number;
  readonly bytes: Uint8Array;
}

export interface TokenPictureOptions {
  /** Characters of a line. */
  readonly width: number;
  readonly ascii: boolean;
  readonly colour: boolean;
}

const escapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text of a token on one line: white space but spaces as \n, \t, \x00; bytes that are part of a character as <f0 9f>. */
export function shownPiece(bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.replace(/\p{C}/gu, (character) => escapes[character] ?? hidden(character));
  } catch {
    return `<${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ")}>`;
  }
}

function hidden(character: string): string {
  const code = character.codePointAt(0)!.toString(16);
  return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u{${code}}`;
}

const wide =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3ffff}]/u;

/** Columns that a terminal gives a text. */
function columnsOf(text: string): number {
  let columns = 0;
  for (const character of text) columns += /\p{M}/u.test(character) ? 0 : wide.test(character) ? 2 : 1;
  return columns;
}

/** Pairs of lines: pieces, and their ids below them. */
export function tokenPicture(tokens: readonly ShownToken[], { width, ascii, colour }: TokenPictureOptions): string[] {
  const wall = colour ? "" : ascii ? "|" : "│";
  const lines: string[] = [];
  let [pieces, ids, used] = ["", "", 0];
  const flush = () => {
    if (used > 0) lines.push(pieces.trimEnd(), ids.trimEnd(), "");
    [pieces, ids, used] = ["", "", 0];
  };
  tokens.forEach(({ id, bytes }, i) => {
    const [piece, number] = [shownPiece(bytes), String(id)];
    const cell = Math.max(columnsOf(piece), number.length);
    if (used + cell + 1 > width) flush();
    const padded = piece + " ".repeat(cell - columnsOf(piece));
    pieces += colour ? `\x1b[48;5;${i % 2 === 0 ? 24 : 54};38;5;231m${padded}\x1b[0m ` : `${padded}${wall}`;
    ids += `${number.padEnd(cell)}${colour ? " " : wall}`;
    used += cell + 1;
  });
  flush();
  return lines;
}

/** Text between marks, where `on`; colours where there are some. */
export function markedText(parts: readonly { readonly text: string; readonly on: boolean }[], colour: boolean): string {
  const [open, close] = colour ? ["\x1b[48;5;22;38;5;231m", "\x1b[0m"] : ["[[", "]]"];
  // A background ends with its line, so that it does not fill the rest of it.
  const mark = (text: string) => text.replace(/[^\n]+/g, (line) => `${open}${line}${close}`);
  return parts.map(({ text, on }) => (on ? mark(text) : text)).join("");
}
