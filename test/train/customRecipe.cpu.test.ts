/** A recipe of the user's own through the command line: trained, recorded in the run, gone on with after its file is gone. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

const folder = mkdtempSync(join(tmpdir(), "halfbyte-own-recipe-"));
const file = join(folder, "mine.json");
const int4 = { element: "int4", block: "1x16", scale: { type: "e4m3", outer: "tensor" } };
/** Its forward pass draws, in validation too. */
const recipe = {
  fprop: {
    rotation: { size: 16, signs: "fresh" },
    left: { ...int4, rounding: "nearest" },
    right: { ...int4, rounding: "nearest" },
  },
  dgrad: "nvfp4",
  wgrad: {
    rotation: { size: 32, signs: "fresh" },
    left: { ...int4, rounding: "stochastic" },
    right: { ...int4, rounding: "nearest" },
  },
};

beforeAll(ensureBuilt);
afterAll(() => rmSync(folder, { recursive: true }));

describe("quantization=FILE.json", () => {
  const keys = [...tinyKeys, `base_output_directory=${folder}`, "run_name=own", "checkpoint_period=2"];

  it("trains, is recorded whole, and goes on without the file", async () => {
    writeFileSync(file, JSON.stringify(recipe));
    const begun = await halfbyte(["train", ...keys, `quantization=${file}`, "steps=2"]);
    expect(begun).toMatchObject({ exitCode: 0 });
    expect(begun.stdout + begun.stderr).toContain("int4");
    const config = JSON.parse(readFileSync(join(folder, "own", "config.json"), "utf8")) as { quantization: string };
    expect(JSON.parse(config.quantization)).toEqual(recipe);
    rmSync(file);
    const on = await halfbyte(["train", join(folder, "own"), "steps=3"]);
    expect(on).toMatchObject({ exitCode: 0 });
  }, 120_000);

  it("is refused with place and rule before anything is computed", async () => {
    const tile = { ...int4, block: "16x16", rounding: "nearest" };
    writeFileSync(file, JSON.stringify({ ...recipe, wgrad: { ...recipe.wgrad, right: tile } }));
    const refused = await halfbyte(["train", ...keys, `quantization=${file}`, "steps=2"]);
    expect(refused.exitCode).toBe(2);
    expect(refused.stderr).toContain("wgrad.right: a rotated tile would differ from its transpose");
    const missing = await halfbyte(["train", ...keys, `quantization=${file}x.json`]);
    expect(missing).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("there is no such file") });
  });

  it("shows in the report of its precision", async () => {
    writeFileSync(file, JSON.stringify(recipe));
    const report = await halfbyte(["report", "precision", "llama-tiny", `quantization=${file}`]);
    expect(report).toMatchObject({ exitCode: 0 });
    expect(report.stdout).toMatch(/custom/);
    expect(report.stdout).toMatch(/int4 1x16 stochastic/);
  });
});
