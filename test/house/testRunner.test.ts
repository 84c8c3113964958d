/** `npm test` counts right and can't pass by accident. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { countResults } from "../../scripts/test.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe("countResults", () => {
  const results = { numPassedTests: 3, numFailedTests: 0, numPendingTests: 2, numTodoTests: 1, testResults: [] };
  const file = (status: string, ...assertions: string[]) => ({
    status,
    assertionResults: assertions.map((assertion) => ({ status: assertion })),
  });

  it("counts what passed, failed and was skipped", () => {
    expect(countResults(results, 0)).toEqual({ passed: 3, failed: 0, skipped: 3 });
    const failed = { ...results, numFailedTests: 1, testResults: [file("failed", "passed", "failed")] };
    expect(countResults(failed, 1)).toEqual({ passed: 3, failed: 1, skipped: 3 });
  });

  it("counts a file that could not be loaded", () => {
    expect(countResults({ ...results, testResults: [file("failed"), file("passed", "passed")] }, 1).failed).toBe(1);
  });

  it("counts a crash, and a failure that belongs to no test", () => {
    expect(countResults(undefined, 139).failed).toBe(1);
    expect(countResults(results, 1).failed).toBe(1);
  });
});

describe("npm test -- FILES", () => {
  function run(...args: string[]) {
    // As a person would start it: not as a part of this run.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("VITEST")));
    const { status, stdout } = spawnSync(process.execPath, [join(root, "scripts", "test.mjs"), ...args], {
      cwd: root,
      env,
      encoding: "utf8",
      timeout: 100_000,
    });
    return { exitCode: status, lastLine: stdout.trimEnd().split("\n").at(-1) };
  }

  it("ends with the counts", () => {
    expect(run("test/cli/arguments.test.ts")).toEqual({
      exitCode: 0,
      lastLine: expect.stringMatching(/^\d+ passed, 0 failed$/),
    });
  });

  it("fails where nothing was tested", () => {
    expect(run("test/none-such")).toEqual({ exitCode: 1, lastLine: "0 passed, 1 failed" });
  });
});
