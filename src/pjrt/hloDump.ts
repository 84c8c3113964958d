/** The optimized program as text. PJRT hands it out as a serialized message only; XLA writes the text to a folder on request. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HalfbyteError } from "../base/errors.ts";
import type { CompileOptions } from "./compileOptions.ts";

/** Runs `compile`, which shall compile one program with the given option overrides, and gives its optimized HLO too. */
export async function withHloDump<T>(
  compile: (envOverrides: NonNullable<CompileOptions["envOverrides"]>) => Promise<T>,
): Promise<{ readonly result: T; readonly hlo: string }> {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-hlo-"));
  try {
    const result = await compile({ xla_dump_to: folder, xla_dump_hlo_as_text: true });
    const file = readdirSync(folder).find((name) => name.endsWith("after_optimizations.txt"));
    if (file === undefined) {
      throw new HalfbyteError(
        "E_HLO",
        "the plugin wrote no text of the optimized program; stage=stablehlo is the last it shows",
      );
    }
    return { result, hlo: readFileSync(join(folder, file), "utf8") };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
