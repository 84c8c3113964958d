/** The machine's C++ compiler: which it is, and what it says where it fails. */
import { runProgram, SetupError } from "./process.mjs";

/** @typedef {{ compiler: string, version: string }} Compiler */

/** @param {string} compiler @returns {[string, ...string[]]} the program and its first arguments */
const commandOf = (compiler) => /** @type {[string, ...string[]]} */ (compiler.trim().split(/\s+/));

/** @param {string} text */
const firstLine = (text) => (text.trim().split("\n")[0] ?? "").trim();

/**
 * Why native code can't be built here, or the compiler (words of a command, such as `ccache g++` in CXX) with the first line of
 * its own version.
 * @returns {Promise<Compiler | { reason: string }>}
 */
export async function findCompiler() {
  if (process.platform !== "linux" || process.arch !== "x64") {
    return { reason: `they are written for Linux on x86-64, this is ${process.platform}-${process.arch}` };
  }
  const chosen = process.env.CXX?.trim();
  const names = chosen ? [chosen] : ["c++", "g++", "clang++"];
  /** @type {string[]} */
  const faults = [];
  for (const compiler of names) {
    const [program, ...args] = commandOf(compiler);
    try {
      const { exitCode, stdout, stderr } = await runProgram(program, [...args, "--version"]);
      if (exitCode === 0) return { compiler, version: firstLine(stdout) };
      faults.push(`fails with exit code ${exitCode}${stderr.trim() && `: ${firstLine(stderr)}`}`);
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      faults.push(code === "ENOENT" ? `is not there (no program ${program})` : `can't be started: ${message}`);
    }
  }
  if (chosen) return { reason: `CXX is "${chosen}", which ${faults[0]}; name a C++ compiler, or leave it unset` };
  return { reason: `no C++ compiler (${names.join(", ")}); install one, or name it in CXX` };
}

/** Throws a `SetupError` with the compiler's own words. @param {string} compiler @param {string[]} args */
export async function compile(compiler, args) {
  const [program, ...first] = commandOf(compiler);
  const { exitCode, stdout, stderr } = await runProgram(program, [...first, ...args]);
  if (exitCode === 0) return;
  const words = (stderr || stdout).split("\n").find((line) => line.includes("error")) ?? `exit code ${exitCode}`;
  throw new SetupError("E_NATIVE", words.trim(), { detail: stdout + stderr });
}
