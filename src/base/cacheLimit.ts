/** How much room a cache on disk may take, as an environment variable says. */
import { parseBytes } from "./byteSize.ts";
import { UserError } from "./errors.ts";

/** Bytes, or no cache at all. */
export type CacheLimit = number | "off";

/** The value of `variable`: "off", or a size such as 500MB or 2GB. @throws UserError with `code` */
export function cacheLimit(variable: string, text: string | undefined, defaultBytes: number, code: string): CacheLimit {
  if (text === undefined || text === "") return defaultBytes;
  if (/^(off|0)$/i.test(text)) return "off";
  const bytes = parseBytes(text);
  if (bytes !== undefined) return bytes;
  throw new UserError(code, `${variable} must be "off" or a size such as 500MB or 2GB; got "${text}"`);
}
