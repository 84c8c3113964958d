/** How much room compiled programs may take: HALFBYTE_COMPILE_CACHE. */
import { parseBytes } from "../base/byteSize.ts";
import { UserError } from "../base/errors.ts";

/** Bytes, or no cache at all. */
export type CacheLimit = number | "off";

const defaultLimit = 2e9;

/** `HALFBYTE_COMPILE_CACHE`: "off", or a size such as 500MB or 2GB (the default). @throws UserError */
export function compileCacheLimit(text = process.env.HALFBYTE_COMPILE_CACHE): CacheLimit {
  if (text === undefined || text === "") return defaultLimit;
  if (/^(off|0)$/i.test(text)) return "off";
  const bytes = parseBytes(text);
  if (bytes !== undefined) return bytes;
  throw new UserError(
    "E_COMPILE_CACHE",
    `HALFBYTE_COMPILE_CACHE must be "off" or a size such as 500MB or 2GB; got "${text}"`,
  );
}
