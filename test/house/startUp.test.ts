/**
 * What a start costs before anything is done, in processor time of the child, which other work on the machine changes
 * little: the median of several.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { ensureBuilt, launcher } from "../train/halfbyte.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
beforeAll(ensureBuilt);

/** Appended to a program: user and system time of its process in seconds, on standard error at its exit. */
const report = `process.on("exit", () => {
  const { user, system } = process.cpuUsage();
  process.stderr.write(String((user + system) / 1e6));
});`;

/** Seconds of processor time, median of five. */
function cost(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): number {
  const times = Array.from({ length: 5 }, () => {
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8", env: { ...process.env, ...env } });
    expect(status).toBe(0);
    return Number(stderr);
  });
  expect(times.every((seconds) => seconds > 0)).toBe(true);
  return times.sort((a, b) => a - b)[2]!;
}

const importing = `await import(${JSON.stringify(pathToFileURL(join(root, "dist", "index.js")).href)});`;

describe("a start", () => {
  it("with an import of the package takes at most 0.3 s more than an empty program", () => {
    const run = (text: string) => cost(process.execPath, ["--input-type=module", "-e", `${report}\n${text}`]);
    expect(run(importing) - run("")).toBeLessThan(0.3);
  });

  it("of halfbyte --help takes at most 0.5 s", () => {
    const preload = `data:text/javascript,${encodeURIComponent(report)}`;
    expect(cost(launcher, ["--help"], { NODE_OPTIONS: `--import=${preload}` })).toBeLessThan(0.5);
  });

  it.runIf(process.platform === "linux")("with an import loads no native library", () => {
    const text = `${importing}
      const { readFileSync } = await import("node:fs");
      const mapped = readFileSync("/proc/self/maps", "utf8");
      console.log(["koffi", "pjrt"].filter((name) => new RegExp(name + ".*\\\\.(node|so)").test(mapped)).join());`;
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", text], { encoding: "utf8" });
    expect(stdout).toBe("\n");
  });
});
