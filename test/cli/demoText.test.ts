import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { sotuFolder } from "../../scripts/dataset.mjs";
import { demoTextFolder } from "../../src/cli/demoText.ts";

afterEach(() => vi.unstubAllEnvs());

it("finds the text where the set-up puts it, and says how to get it", () => {
  const cache = mkdtempSync(join(tmpdir(), "halfbyte-demo-"));
  vi.stubEnv("HALFBYTE_CACHE", cache);
  try {
    expect(demoTextFolder).toThrow(
      "run `npm run setup -- --demo` in a clone, `halfbyte setup --demo` in a project that installed it",
    );
    mkdirSync(sotuFolder(cache), { recursive: true });
    writeFileSync(join(sotuFolder(cache), "halfbyte.json"), "{}");
    expect(demoTextFolder()).toBe(sotuFolder(cache));
  } finally {
    rmSync(cache, { recursive: true });
  }
});
