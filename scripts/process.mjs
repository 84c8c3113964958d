/** Failures of the set-up, and the one way to run another program. Plain Node: this runs before any dependency exists. */
import { spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** Whether the module with this `import.meta.url` is the program that Node was started with. @param {string} url */
export function isEntry(url) {
  const started = process.argv[1];
  return started !== undefined && existsSync(started) && url === pathToFileURL(realpathSync(started)).href;
}

/** A failure with a stable code and one sentence that names the fix. */
export class SetupError extends Error {
  /** @param {string} code @param {string} message @param {{ detail?: string, exitCode?: number }} [more] */
  constructor(code, message, more = {}) {
    super(message);
    this.code = code;
    /** The other program's own words, for the curious; printed before the sentence. */
    this.detail = more.detail ?? "";
    this.exitCode = more.exitCode ?? 1;
  }
}

/** @type {Set<import("node:child_process").ChildProcess>} */
const children = new Set();

/** Ends every program started by `runProgram` that still runs. */
export function endPrograms() {
  for (const child of children) child.kill("SIGTERM");
}

/**
 * Runs a program to its end and returns what it said; throws only where it can't be started (`code` is Node's, such as ENOENT).
 * @param {string} program
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, show?: boolean }} [options] show: pass its output through instead of keeping it
 * @returns {Promise<{ exitCode: number, stdout: string, stderr: string }>}
 */
export function runProgram(program, args, options = {}) {
  return new Promise((resolve, reject) => {
    const output = options.show ? "inherit" : "pipe";
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      stdio: ["ignore", output, output],
    });
    children.add(child);
    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (/** @type {string} */ text) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (/** @type {string} */ text) => {
      stderr += text;
    });
    child.on("error", (error) => {
      children.delete(child);
      reject(error);
    });
    child.on("close", (exitCode, signal) => {
      children.delete(child);
      resolve({ exitCode: exitCode ?? (signal === "SIGINT" ? 130 : 143), stdout, stderr });
    });
  });
}
