/**
 * `npm run setup`: dependencies, build, PJRT plugin (and the demo's text). Does only what is missing; safe to interrupt and to
 * run twice at once. Plain Node without dependencies, since it runs before there are any.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, buildIsCurrent } from "./build.mjs";
import { cacheRoot, removeTemporaries, withLock } from "./cache.mjs";
import { findCompiler } from "./compiler.mjs";
import { installSotu, sotuFolder, sotuIsInstalled } from "./dataset.mjs";
import { dependenciesAreCurrent, installDependencies } from "./dependencies.mjs";
import { buildLargeBlocks, largeBlocksAreBuilt } from "./largeBlocks.mjs";
import { buildKernels, kernelsAreBuilt } from "./nativeKernels.mjs";
import { installPlugin, mainPlugin, megabytesOf, pluginIsInstalled, secondPlugin } from "./plugin.mjs";
import { endPrograms, isEntry, SetupError } from "./process.mjs";
import { progressOn, secondsSince } from "./progress.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

const HELP = `Usage: halfbyte setup [options]   (in a clone also: npm run setup -- [options])

Installs the npm packages of the lock file, builds dist, fetches the PJRT CPU plugin into the cache
(\${HALFBYTE_CACHE:-~/.cache/halfbyte}), and builds the native CPU kernels and an allocator there where a C++ compiler is (without
them everything runs, some of it slower). Does only what is missing.

  --demo            also the demo's text (7 MB)
  --second-plugin   also a second PJRT CPU plugin, which some tests use (63 MB)
  --json            the result as one JSON object on standard output; progress goes to standard error
  --help

HALFBYTE_PJRT_PLUGIN=PATH   use this PJRT plugin; none is fetched
CXX=COMPILER                the C++ compiler of the native kernels, or "ccache g++" (default: c++, g++ or clang++, whichever is there)

Example: halfbyte setup --demo
`;

/**
 * @typedef {object} Step
 * @property {string} name as in the JSON result
 * @property {string} label what is being done, for a person
 * @property {boolean} wanted
 * @property {string} [unwanted] why not
 * @property {() => boolean} isDone
 * @property {(note: (text: string) => void) => Promise<void | { skipped: string }>} run note: tells how far it is
 * @property {boolean} [locked] changes the working tree: one run at a time
 */

/**
 * @param {{ demo?: boolean, secondPlugin?: boolean }} options
 * @returns {Step[]}
 */
function stepsFor(options) {
  const cache = cacheRoot();
  const clone = existsSync(join(root, "package-lock.json")) && existsSync(join(root, "src"));
  const own = process.env.HALFBYTE_PJRT_PLUGIN;
  return [
    {
      name: "dependencies",
      label: "npm packages",
      wanted: clone,
      isDone: () => dependenciesAreCurrent(root),
      run: () => installDependencies(root),
      locked: true,
    },
    {
      name: "build",
      label: "build",
      wanted: clone,
      isDone: () => buildIsCurrent(root),
      run: () => build(root),
      locked: true,
    },
    {
      name: "plugin",
      label: `PJRT plugin ${mainPlugin.package} ${mainPlugin.version} (${megabytesOf(mainPlugin)})`,
      wanted: !own,
      unwanted: "HALFBYTE_PJRT_PLUGIN is set",
      isDone: () => pluginIsInstalled(cache, mainPlugin),
      run: (note) => installPlugin(cache, mainPlugin, note),
    },
    {
      name: "second-plugin",
      label: `PJRT plugin ${secondPlugin.package} ${secondPlugin.version} (${megabytesOf(secondPlugin)})`,
      wanted: options.secondPlugin === true,
      isDone: () => pluginIsInstalled(cache, secondPlugin),
      run: (note) => installPlugin(cache, secondPlugin, note),
    },
    {
      name: "native-kernels",
      label: "native CPU kernels",
      wanted: true,
      isDone: () => kernelsAreBuilt(cache, root),
      run: (note) => ifPossible((found) => buildKernels(cache, root, found, note)),
    },
    {
      name: "large-blocks",
      label: "allocator of large blocks",
      wanted: true,
      isDone: () => largeBlocksAreBuilt(cache, root),
      run: () => ifPossible((found) => buildLargeBlocks(cache, root, found)),
    },
    {
      name: "demo-text",
      label: `the demo's text, into ${sotuFolder(cache)}`,
      wanted: options.demo === true,
      isDone: () => sotuIsInstalled(cache),
      run: () => installSotu(cache),
    },
  ];
}

/**
 * Builds native code. It is no condition of anything: what goes wrong is said and the set-up goes on.
 * @param {(found: import("./compiler.mjs").Compiler) => Promise<void>} build
 */
async function ifPossible(build) {
  const found = await findCompiler();
  if ("reason" in found) return { skipped: found.reason };
  try {
    return await build(found);
  } catch (error) {
    return { skipped: `${found.compiler} failed: ${/** @type {Error} */ (error).message}` };
  }
}

/** @typedef {{ step: string, state: "present" | "done" | "skipped", seconds: number }} StepResult */

/**
 * Brings everything up to date; resolves with what was done. Throws a `SetupError`.
 * @param {{ demo?: boolean, secondPlugin?: boolean }} options
 * @param {import("./progress.mjs").Progress} progress
 */
export async function setUp(options, progress) {
  checkNode(process.versions.node);
  /** @type {StepResult[]} */
  const results = [];
  for (const step of stepsFor(options)) {
    const start = performance.now();
    const state = step.wanted ? await carryOut(step, progress) : "skipped";
    if (state === "skipped" && step.unwanted) progress.say(`- ${step.label}: skipped, ${step.unwanted}`);
    results.push({ step: step.name, state, seconds: secondsSince(start) });
  }
  return results;
}

/**
 * @param {Step} step
 * @param {import("./progress.mjs").Progress} progress
 * @returns {Promise<"present" | "done" | "skipped">}
 */
async function carryOut(step, progress) {
  if (step.isDone()) return "present";
  const start = performance.now();
  const work = async () => {
    if (step.isDone()) return "present";
    progress.say(`- ${step.label} …`);
    let detail = step.name;
    const timer = setInterval(() => progress.show(`  ${secondsSince(start).toFixed(0)} s: ${detail}`), 500);
    let result;
    try {
      result = await step.run((text) => {
        detail = text;
      });
    } finally {
      clearInterval(timer);
    }
    if (result !== undefined) {
      progress.say(`  skipped: ${result.skipped}`);
      return "skipped";
    }
    progress.say(`  done in ${secondsSince(start)} s`);
    return "done";
  };
  const waiting = (/** @type {number} */ pid) =>
    progress.say(`- ${step.label}: another set-up (process ${pid}) is at it; waiting`);
  return step.locked ? withLock(join(root, ".setup-lock"), work, waiting) : work();
}

/** @param {string} version */
export function checkNode(version) {
  if (Number(version.split(".")[0]) < 20) {
    throw new SetupError("E_NODE", `Halfbyte needs Node.js 20 or newer, but this is ${version}: install a newer one.`);
  }
}

/** Ends what was started and removes what is half done when the user interrupts. */
export function cleanUpOnSignals() {
  for (const [signal, exitCode] of /** @type {const} */ ([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ])) {
    process.on(signal, () => {
      endPrograms();
      removeTemporaries();
      process.stderr.write("\nInterrupted: the next run goes on from here.\n");
      process.exit(exitCode);
    });
  }
}

/** @param {string[]} args @returns {Promise<number>} the exit code */
async function main(args) {
  const known = ["--demo", "--second-plugin", "--json", "--help"];
  const json = args.includes("--json");
  const progress = progressOn(json ? process.stderr : process.stdout);
  const start = performance.now();
  try {
    const unknown = args.find((arg) => !known.includes(arg));
    if (unknown !== undefined) {
      throw new SetupError("E_OPTION", `Unknown option "${unknown}": known are ${known.join(", ")}.`, { exitCode: 2 });
    }
    if (args.includes("--help")) {
      process.stdout.write(HELP);
      return 0;
    }
    cleanUpOnSignals();
    const options = { demo: args.includes("--demo"), secondPlugin: args.includes("--second-plugin") };
    const steps = await setUp(options, progress);
    const seconds = secondsSince(start);
    progress.say(`Halfbyte is set up (${seconds} s).`);
    if (json) process.stdout.write(`${JSON.stringify({ ok: true, seconds, cache: cacheRoot(), steps })}\n`);
    return 0;
  } catch (error) {
    return report(error, json);
  }
}

/** @param {unknown} error @param {boolean} json @returns {number} the exit code */
export function report(error, json) {
  const known = error instanceof SetupError;
  const code = known ? error.code : "E_INTERNAL";
  const message = known ? error.message : String(/** @type {Error} */ (error).stack ?? error);
  if (known && error.detail) process.stderr.write(`${error.detail.trimEnd()}\n\n`);
  if (json) process.stdout.write(`${JSON.stringify({ ok: false, error: { code, message } })}\n`);
  else process.stderr.write(`${message}\n`);
  return known ? error.exitCode : 1;
}

if (isEntry(import.meta.url)) {
  process.exitCode = await main(process.argv.slice(2));
}
