/** A cache folder of a test's own, with this machine's plugin and its measured speed but nothing compiled. */
import { existsSync, mkdtempSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheFolder } from "../src/pjrt/index.ts";

/** The caller removes it. */
export function temporaryCache(): string {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-cache-"));
  for (const part of ["plugins", "peaks", "native"]) {
    const known = join(cacheFolder(), part);
    if (existsSync(known)) symlinkSync(known, join(folder, part));
  }
  return folder;
}
