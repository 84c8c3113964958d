/** `npm run bench:check` as a person runs it, on a small model; the tolerance is wide, since other tests run beside it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import type { Reference } from "../../bench/references.ts";
import { halfbyte } from "../train/halfbyte.ts";

const script = fileURLToPath(new URL("../../bench/check.ts", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "halfbyte-check-"));
const references = join(scratch, "references.json");
const checkAgainst = (path: string, ...args: string[]) =>
  halfbyte(["--import", "tsx", script, "workload=tiny", "rounds=4", `references=${path}`, ...args], {
    program: process.execPath,
  });
const check = (...args: string[]) => checkAgainst(references, ...args);

afterAll(() => rmSync(scratch, { recursive: true }));

describe("bench:check", () => {
  it("says how to record a machine that it has no reference of, and ends well", async () => {
    writeFileSync(references, "[]");
    const { exitCode, stdout, stderr } = await check("parts=mlp");
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toMatch(/mlp +[\d.]+ +- +-/);
    expect(stdout).toContain(
      "There is no reference for this kind of machine; write one: npm run bench:check -- record",
    );
  });

  it("passes against its own record and fails against a better one, naming what is slower", async () => {
    const parts = "parts=step,norm";
    const recorded = await check("record", parts);
    expect(recorded.exitCode, recorded.stderr).toBe(0);
    const all = JSON.parse(readFileSync(references, "utf8")) as Reference[];
    expect(all).toHaveLength(1);
    expect(all[0]).toMatchObject({ workload: "tiny", ratios: { step: { cpu: expect.any(Number) } } });

    const same = await check(parts, "tolerance=150", "--json");
    expect(same.exitCode, same.stdout).toBe(0);
    expect(JSON.parse(same.stdout)).toMatchObject({ slower: [], parts: [{ part: "step" }, { part: "norm" }] });

    const [record] = all as [Reference];
    const ratios = { ...record.ratios, step: { cpu: record.ratios.step!.cpu / 10 } };
    writeFileSync(references, JSON.stringify([{ ...record, ratios }]));
    const worse = await check(parts, "tolerance=150");
    expect(worse.exitCode, worse.stderr).toBe(1);
    expect(worse.stdout).toMatch(/step .*SLOWER/);
    expect(worse.stdout).toContain("More than 150 % slower than the reference: step.");
  });

  it("explains itself, and refuses parts that are none", async () => {
    const help = await check("--help");
    expect(help).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("npm run bench:check -- [record]") });
    for (const [path, reason] of [
      [join(scratch, "no", "file.json"), "there is no such file; with `record` it is written"],
      [scratch, "can't be read"],
    ] as const) {
      const { exitCode, stderr } = await checkAgainst(path, "parts=mlp");
      expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(`references=${path}`) });
      expect(stderr).toContain(reason);
      expect(stderr).not.toContain("…");
    }
    const wrong = await check("parts=attentoin");
    expect(wrong).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('unknown part "attentoin"; known: step'),
    });
  });
});
