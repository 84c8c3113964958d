/**
 * `npm test`: set-up, formatting and lint, types, then every test. Arguments go to vitest (`npm test -- test/core`), and then only
 * those tests run. The last line is `N passed, N failed`, counting lint and types as one each.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { endPrograms, isEntry, runProgram } from "./process.mjs";
import { progressOn, secondsSince } from "./progress.mjs";
import { cleanUpOnSignals, report, setUp } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */

/** @param {readonly Counts[]} all @returns {Counts} */
function sum(all) {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of all) {
    total.passed += passed;
    total.failed += failed;
    total.skipped += skipped;
  }
  return total;
}

/** @param {string} name @param {string} program path in node_modules @param {string[]} args @returns {Promise<Counts>} */
async function check(name, program, args) {
  const start = performance.now();
  const { exitCode } = await runProgram(process.execPath, [join(root, "node_modules", program), ...args], {
    cwd: root,
    show: true,
  });
  const failed = exitCode === 0 ? 0 : 1;
  process.stdout.write(`${name}: ${failed ? "FAILED" : "ok"} (${secondsSince(start)} s)\n`);
  return { passed: 1 - failed, failed, skipped: 0 };
}

/** @param {string[]} args @returns {Promise<Counts>} */
async function runTests(args) {
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-test-"));
  const file = join(folder, "results.json");
  try {
    const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
    const { exitCode } = await runProgram(
      process.execPath,
      [vitest, "run", "--reporter=default", "--reporter=json", `--outputFile.json=${file}`, ...args],
      { cwd: root, show: true },
    );
    return countResults(existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined, exitCode);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @typedef {object} VitestResults
 * @property {number} numPassedTests
 * @property {number} numFailedTests
 * @property {number} numPendingTests
 * @property {number} numTodoTests
 * @property {{ status: string, assertionResults: { status: string }[] }[]} testResults
 */

/**
 * Counts tests; a file that could not be loaded, and a run that failed without a failed test (a crash, an unhandled rejection), count
 * as one failure each.
 * @param {VitestResults | undefined} results @param {number} exitCode
 * @returns {Counts}
 */
export function countResults(results, exitCode) {
  if (results === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const broken = results.testResults.filter(
    ({ status, assertionResults }) =>
      status === "failed" && !assertionResults.some((assertion) => assertion.status === "failed"),
  ).length;
  const failed = results.numFailedTests + broken;
  return {
    passed: results.numPassedTests,
    failed: failed === 0 && exitCode !== 0 ? 1 : failed,
    skipped: results.numPendingTests + results.numTodoTests,
  };
}

/** @param {string[]} args @returns {Promise<number>} the exit code */
async function main(args) {
  cleanUpOnSignals();
  /** @type {Counts[]} */
  const counts = [];
  try {
    await setUp({}, progressOn(process.stdout));
    if (args.length === 0) {
      counts.push(await check("format and lint", "@biomejs/biome/bin/biome", ["check", "--error-on-warnings", "."]));
      counts.push(await check("types", "typescript/bin/tsc", ["-p", "tsconfig.json"]));
    }
    counts.push(await runTests(args));
  } catch (error) {
    report(error, false);
    counts.push({ passed: 0, failed: 1, skipped: 0 });
  } finally {
    endPrograms();
  }
  const { passed, failed, skipped } = sum(counts);
  process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`);
  return failed === 0 ? 0 : 1;
}

if (isEntry(import.meta.url)) {
  process.exitCode = await main(process.argv.slice(2));
}
