/** `halfbyte convert` as a process: a model from GGUF, its report, what it refuses. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { configOf, ggufOf, llamaA, llamaB, tensorsOf } from "../convert/models.ts";
import { goldenPath } from "../golden.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-convert-"));
beforeAll(ensureBuilt);
afterAll(() => rmSync(scratch, { recursive: true }));

describe("halfbyte convert", () => {
  it("makes a Hugging Face folder of a GGUF file, with its tokenizer, and says what it did", async () => {
    const file = await ggufOf(join(scratch, "model.gguf"), llamaB);
    const output = join(scratch, "from-gguf");
    const { exitCode, stdout, stderr } = await halfbyte(["convert", file, `output=${output}`, "verify=true"]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(
      /^\S+from-gguf: from \S+model.gguf, a GGUF file\n {2}20 tensors, 0.06 million parameters, float32/,
    );
    expect(stdout).toContain("beside them: config.json, tokenizer.json, tokenizer_config.json");
    expect(stdout).not.toContain("note:");
    expect(stdout).toMatch(
      /verified: logits of 12 tokens are (equal|at most [\d.e-]+ apart .*); 12 of 12 have the same/,
    );
    expect(await tensorsOf(output)).toEqual(await tensorsOf(goldenPath(`06_models/${llamaB}`)));
    expect(JSON.parse(readFileSync(join(output, "tokenizer_config.json"), "utf8"))).toMatchObject({
      eos_token: "<|end_of_text|>",
    });
  });

  it("reports as JSON, with shards and another dtype", async () => {
    const output = join(scratch, "sharded");
    const args = [`output=${output}`, "dtype=float16", "max_shard_size=100KB", "--json"];
    const { stdout } = await halfbyte(["convert", goldenPath(`06_models/${llamaA}`), ...args]);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({ output, from: "huggingface", to: "huggingface", dtype: "float16", tensors: 39 });
    expect(report.shards).toBeGreaterThan(3);
    expect(configOf(output).torch_dtype).toBe("float16");
    expect(report.notes).toEqual([expect.stringContaining("the source has no tokenizer, so that none was written")]);
  });

  it.each([
    [["output=x"], "E_ARGUMENT", /the model is missing/],
    [["MODEL"], "E_KEY", /output=… is missing/],
    [["MODEL", "output=NEW", "dtype=bf16"], "E_VALUE", /must be one of float32, bfloat16, float16/],
    [["MODEL", "output=NEW", "to=gguf"], "E_VALUE", /to=gguf: must be one of huggingface, halfbyte/],
    [["MODEL", "output=NEW", "max_shard_size=many"], "E_VALUE", /must be a size above 0, such as 5GB/],
    [["MODEL", "output=NEW", "to=halfbyte", "dtype=float16"], "E_NO_EFFECT", /dtype has no effect with to=halfbyte/],
    [["MODEL", "output=MODEL"], "E_OUTPUT", /exists already/],
    [["NOWHERE", "output=NEW"], "E_CHECKPOINT", /no such file or folder/],
  ])("refuses %j", async (words, code, message) => {
    const places: Record<string, string> = {
      MODEL: goldenPath(`06_models/${llamaB}`),
      NEW: join(scratch, "new"),
      NOWHERE: join(scratch, "no"),
    };
    const args = words.map((word) => word.replace(/MODEL|NEW|NOWHERE/, (place) => places[place]!));
    const { exitCode, stdout } = await halfbyte(["convert", ...args, "--json"]);
    expect(exitCode).toBe(2);
    expect(JSON.parse(stdout).error).toMatchObject({ code, message: expect.stringMatching(message) });
    expect(existsSync(places.NEW!)).toBe(false);
  });
});
