/** How much room compiled programs may take: HALFBYTE_COMPILE_CACHE. */
import { type CacheLimit, cacheLimit } from "../base/cacheLimit.ts";

/** `HALFBYTE_COMPILE_CACHE`: "off", or a size such as 500MB or 2GB (the default). @throws UserError */
export function compileCacheLimit(text = process.env.HALFBYTE_COMPILE_CACHE): CacheLimit {
  return cacheLimit("HALFBYTE_COMPILE_CACHE", text, 2e9, "E_COMPILE_CACHE");
}
