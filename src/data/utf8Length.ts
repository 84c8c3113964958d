/** How many of the bytes, from the first on, are whole characters of UTF-8. */
export function utf8Length(bytes: Uint8Array): number {
  const replaced = "\ufffd";
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  let length = 0;
  for (let at = 0; ; at++) {
    const next = text.indexOf(replaced, at);
    if (next < 0) return bytes.length;
    length += Buffer.byteLength(text.slice(at, next));
    // The text may have that character itself.
    if (bytes[length] !== 0xef || bytes[length + 1] !== 0xbf || bytes[length + 2] !== 0xbd) return length;
    length += 3;
    at = next;
  }
}
