/**
 * The byte-level alphabet of GPT-2 and its descendants: every byte as one printable character, so that tokens of raw
 * bytes can be written in JSON. Printable Latin-1 bytes stand for themselves, the others for U+0100, U+0101, …
 */

const isPrintable = (byte: number) =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);

/** Character of each byte. */
export const charOfByte: readonly string[] = (() => {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : next++));
})();

const byteOfChar = new Map(charOfByte.map((char, byte) => [char, byte]));

/** The 256 bytes in the order of their characters: the order of ids in a vocabulary of bytes. */
export const bytesInAlphabetOrder: readonly number[] = charOfByte
  .map((char, byte) => ({ byte, code: char.codePointAt(0)! }))
  .sort((a, b) => a.code - b.code)
  .map(({ byte }) => byte);

/** A token's bytes in the alphabet's characters. */
export function spellBytes(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += charOfByte[byte];
  return text;
}

/** The bytes of a spelled token, or undefined where a character is not of the alphabet. */
export function unspellBytes(spelled: string): Uint8Array | undefined {
  const bytes = new Uint8Array(spelled.length);
  for (let i = 0; i < spelled.length; i++) {
    const byte = byteOfChar.get(spelled[i]!);
    if (byte === undefined) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}
