/** A run's folder belongs to one process at a time; another one, started as a person does it, changes nothing there. */
import { spawn } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

const train = (base: string, ...keys: string[]) =>
  halfbyte(["train", ...tinyKeys, `base_output_directory=${base}`, "run_name=run", ...keys]);

/** Every file under a folder, with its text and the time it was written. */
const contents = (folder: string) =>
  (readdirSync(folder, { recursive: true }) as string[])
    .sort()
    .map((path) => join(folder, path))
    .filter((path) => statSync(path).isFile())
    .map((path) => [path, readFileSync(path, "utf8"), statSync(path).mtimeMs]);

describe("a run that a living process has", () => {
  it.each([
    ["before its first checkpoint", {}],
    ["while it deletes checkpoints", { "run/checkpoints/step-00000010/state.json": "{" }],
  ])("is named as in use and keeps every file, %s", async (_, checkpoints) => {
    const holder = spawn("sleep", ["60"]);
    try {
      const base = temporaryFolder({
        "run/config.json": '{ "steps": 20 }\n',
        "run/events.jsonl": "",
        "run/run.lock": String(holder.pid),
        ...checkpoints,
      });
      const before = contents(base);
      const { exitCode, stdout, stderr } = await train(base, "steps=30");
      expect(stderr).toContain(`${join(base, "run")} is in use by process ${holder.pid}: wait for it`);
      expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
      expect(contents(base)).toEqual(before);
    } finally {
      holder.kill();
    }
  });

  it("is free again after a command that found a mistake there", async () => {
    const base = temporaryFolder({ "run/config.json": "{}", "run/checkpoints/step-00000010/state.json": "{" });
    const { exitCode, stderr } = await train(base);
    expect(stderr).toContain("is whole");
    expect(exitCode).toBe(2);
    expect(readdirSync(join(base, "run")).sort()).toEqual(["checkpoints", "config.json"]);
  });
});
