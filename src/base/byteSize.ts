/** Numbers of bytes as people write and read them; units are powers of 1000. */

const units: Readonly<Record<string, number>> = { "": 1, b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 };

/** "500MB", "1.5 GB", "1024"; undefined where it is no size. */
export function parseBytes(text: string): number | undefined {
  const [, number, unit = ""] = text.trim().match(/^(\d+(?:\.\d+)?)\s*([kmgt]?b)?$/i) ?? [];
  const scale = units[unit.toLowerCase()];
  return number === undefined || scale === undefined ? undefined : Math.floor(Number(number) * scale);
}

/** "4.2 MB", "384 MB", "12.3 GB" */
export function megabytes(bytes: number): string {
  return bytes >= 1e10 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}
