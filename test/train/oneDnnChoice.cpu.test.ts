/** What a checkpoint says of oneDNN's products, which bits depend on. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { checkpointPath } from "../../src/checkpoint/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);
afterEach(() => vi.unstubAllEnvs());

/** A run of one step where HALFBYTE_ONEDNN is `choice`. */
async function train(base: string, choice: string) {
  vi.stubEnv("HALFBYTE_ONEDNN", choice);
  const settings = ["steps=1", "eval_steps=1", `base_output_directory=${base}`, "run_name=run"];
  return halfbyte(["train", ...tinyKeys, ...settings]);
}

const oneDnnOf = (base: string) => {
  const state = join(checkpointPath(join(base, "run", "checkpoints"), 1), "state.json");
  return JSON.parse(readFileSync(state, "utf8")).provenance.oneDnn;
};

it("names the operands that oneDNN multiplies, and none where HALFBYTE_ONEDNN is off", async () => {
  const [here, without] = [temporaryFolder(), temporaryFolder()];
  expect((await train(here, "auto")).exitCode).toBe(0);
  expect((await train(without, "off")).exitCode).toBe(0);
  expect(oneDnnOf(here)).toMatch(/^(none|bfloat16, float32|float32)$/);
  expect(oneDnnOf(without)).toBe("none");
});

it("refuses another word before anything is written", async () => {
  const base = temporaryFolder();
  const { exitCode, stdout, stderr } = await train(base, "of");
  expect(stderr).toContain('HALFBYTE_ONEDNN is "of"; it may be 0, off, false');
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
  expect(existsSync(join(base, "run"))).toBe(false);
});
