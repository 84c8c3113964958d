/** `npm run bench:peers` as a person runs it, on a small model. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { cacheFolder } from "../../src/pjrt/index.ts";
import { halfbyte } from "../train/halfbyte.ts";

const script = fileURLToPath(new URL("../../bench/peers.ts", import.meta.url));
const benchPeers = (...args: string[]) => halfbyte(["--import", "tsx", script, ...args], { program: process.execPath });
const scratch = mkdtempSync(join(tmpdir(), "halfbyte-peers-"));
const hasPython = existsSync(join(cacheFolder(), "peers", "venv", "bin", "python"));

afterAll(() => rmSync(scratch, { recursive: true }));

describe("bench:peers", () => {
  it("measures Halfbyte's recipes beside its BF16 step, as a table, bars and JSON", async () => {
    // Folders that are not there yet are made.
    const files = { svg: join(scratch, "pictures", "speed.svg"), out: join(scratch, "a", "b", "speed.json") };
    const { exitCode, stdout, stderr } = await benchPeers(
      ...["workloads=tiny", "rounds=2", "steps=1", "peers=halfbyte@plain,halfbyte-mxfp8"],
      ...[`svg=${files.svg}`, `out=${files.out}`],
    );
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toMatch(/^Workload tiny: training step, 2 layers/);
    expect(stdout).toMatch(/halfbyte-bf16@plain +[\d.]+ +\d+ % +\d+ +\d+ %/);
    expect(stdout).toMatch(/halfbyte-mxfp8 +█+.* \d\.\d\d ×/);
    expect(readFileSync(files.svg, "utf8")).toMatch(/^<svg [\s\S]*halfbyte-mxfp8<\/text>/);
    const { rounds, workloads, failures } = JSON.parse(readFileSync(files.out, "utf8"));
    expect({ rounds, failures }).toEqual({ rounds: 2, failures: [] });
    const [{ base, rows, shareOfBf16Peak }] = workloads;
    expect(base.losses).toHaveLength(2);
    expect(base.ready.settings["native kernels"]).toBe("none (HALFBYTE_NATIVE_KERNELS is 0)");
    // It learns, and mxfp8 is another computation.
    expect(base.losses[1]).toBeLessThan(base.losses[0]);
    expect(rows[0].lossDifference).toBeGreaterThan(0);
    expect(rows[0].lossDifference).toBeLessThan(0.01);
    expect(shareOfBf16Peak).toBeGreaterThan(0);
    expect(shareOfBf16Peak).toBeLessThan(1);
  });

  it("has peers of equal losses: training with a tied head, the forward pass in FP32", async ({ skip }) => {
    skip(!hasPython, "the Python peers are not installed: bash bench/peers/setup.sh");
    const { exitCode, stdout, stderr } = await benchPeers(
      ...["workloads=tiny-tied,tiny-eval-fp32", "rounds=1", "steps=2", "peers=halfbyte,torch-eager,jax", "--json"],
    );
    expect(exitCode, stderr).toBe(0);
    const { workloads } = JSON.parse(stdout);
    for (const { rows } of workloads) {
      expect(rows.map(({ peer }: { peer: string }) => peer)).toEqual(["torch-eager", "jax"]);
      for (const { losses, lossDifference } of rows) {
        expect(losses).toHaveLength(2);
        expect(lossDifference).toBeLessThan(1e-3);
      }
    }
    expect(workloads[1].base.peer).toBe("halfbyte-fp32");
  });

  it("refuses a file that can't be written, before it measures", async () => {
    writeFileSync(join(scratch, "file"), "");
    const out = join(scratch, "file", "speed.json");
    const { exitCode, stdout, stderr } = await benchPeers("workloads=tiny", `out=${out}`);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toBe(`out=${out} can't be written (a part of the path is a file): choose another file\n`);
    const folder = await benchPeers("workloads=tiny", `svg=${scratch}`);
    expect(folder).toMatchObject({
      exitCode: 2,
      stderr: `svg=${scratch} can't be written (it is a folder): choose another file\n`,
    });
  });

  it("refuses a peer that is none before anything is drawn or compiled", async () => {
    const { exitCode, stdout, stderr } = await benchPeers("workloads=all", "peers=halfbyte,torch-compil");
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toBe('unknown peer "torch-compil"; did you mean torch-compile?\n');
  });
});
