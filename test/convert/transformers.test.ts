/** Exports load in transformers and compute the same there; where Python has it with torch, else skipped. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { convertModel, openSource } from "../../src/convert/index.ts";
import { referenceLogits } from "../../src/convert/referenceLogits.ts";
import { loadTokenizer } from "../../src/tokenizers/index.ts";
import { goldenPath } from "../golden.ts";
import { maxDifference } from "../models/goldenLlama.ts";
import { ggufOf, llamaA, llamaB } from "./models.ts";

/** That of HALFBYTE_TRANSFORMERS_PYTHON, or those that measure against PyTorch and that every machine has. */
const pythons = [
  process.env.HALFBYTE_TRANSFORMERS_PYTHON,
  join(homedir(), ".cache/halfbyte/peers/venv/bin/python"),
  "python3",
].filter((python) => python !== undefined && (python === "python3" || existsSync(python)));
const python = pythons.find((path) => {
  const names =
    "from importlib.util import find_spec; raise SystemExit(not (find_spec('torch') and find_spec('transformers')))";
  return spawnSync(path!, ["-c", names]).status === 0;
});

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-transformers-"));
afterAll(() => rmSync(scratch, { recursive: true }));

interface Read {
  readonly logits: number[];
  readonly dtype: string;
  readonly loading: object;
  readonly text?: number[];
  readonly eos?: string;
}

const why = python === undefined ? " (skipped: no Python with torch and transformers)" : "";
describe.skipIf(python === undefined)(`exports in transformers${why}`, () => {
  it("load with nothing missing and nothing left, in their dtype, with the same logits and tokens", {
    timeout: 120_000,
  }, async () => {
    const exports = [
      { source: goldenPath(`06_models/${llamaA}`), dtype: "float16", maxShardBytes: 100_000 },
      { source: goldenPath(`06_models/${llamaB}`), dtype: "bfloat16" },
      { source: await ggufOf(join(scratch, "b.gguf"), llamaB), dtype: "float32" },
    ] as const;
    const folders: string[] = [];
    for (const [i, { source, ...options }] of exports.entries()) {
      folders.push(join(scratch, `${i}`));
      await convertModel(source, folders[i]!, options);
    }
    const ids = [3, 141, 59, 26, 53, 58, 97, 200];
    const script = fileURLToPath(new URL("./readExports.py", import.meta.url));
    const ran = spawnSync(python!, [script, JSON.stringify(ids), ...folders], { encoding: "utf8" });
    expect(ran.status, ran.stderr).toBe(0);
    const found = JSON.parse(ran.stdout.trim().split("\n").at(-1)!) as Read[];
    for (const [i, { dtype }] of exports.entries()) {
      expect(found[i]).toMatchObject({ dtype: `torch.${dtype}`, loading: {} });
      const source = await openSource(folders[i]!);
      const logits = await referenceLogits(source.tensors, {
        config: source.config.config,
        tokens: ids,
        paired: false,
      });
      await source.close();
      expect(maxDifference(found[i]!.logits, logits.at(-1)!)).toBeLessThan(1e-4);
    }
    const tokenizer = loadTokenizer(folders[2]!);
    expect(found[2]!.text).toEqual([...tokenizer.encode("naïve café, 1234!")]);
    expect(found[2]!.eos).toBe("<|end_of_text|>");
  });
});
