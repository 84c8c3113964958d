/** npm packages: `node_modules` is right when npm's own record of it agrees with the lock file. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runProgram, SetupError } from "./process.mjs";

/** @typedef {{ packages?: Record<string, { version?: string, integrity?: string, optional?: boolean }> }} LockFile */

/** @param {string} file @returns {LockFile | undefined} */
function readLock(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * Whether every required package of the lock file is installed in exactly its version. npm writes its record last, so an
 * interrupted installation has none.
 * @param {string} root
 */
export function dependenciesAreCurrent(root) {
  const wanted = readLock(join(root, "package-lock.json"));
  const installed = readLock(join(root, "node_modules", ".package-lock.json"))?.packages;
  if (installed === undefined) return false;
  return Object.entries(wanted?.packages ?? {}).every(([path, entry]) => {
    if (path === "" || entry.optional) return true;
    const found = installed[path];
    return found?.version === entry.version && found?.integrity === entry.integrity;
  });
}

/**
 * Installs by the lock file.
 * @param {string} root
 */
export async function installDependencies(root) {
  const { exitCode, stderr } = await runNpm(
    ["ci", "--include=dev", "--include=optional", "--no-audit", "--no-fund", "--loglevel=error"],
    root,
  );
  if (exitCode !== 0) throw npmFailure("The npm packages of the lock file could not be installed", stderr);
}

/**
 * Runs npm: the one that runs us where there is one, else the one on the PATH.
 * @param {string[]} args @param {string} cwd
 */
export async function runNpm(args, cwd) {
  const own = process.env.npm_execpath;
  try {
    return own?.endsWith(".js")
      ? await runProgram(process.execPath, [own, ...args], { cwd })
      : await runProgram("npm", args, { cwd });
  } catch {
    throw new SetupError("E_NO_NPM", "npm was not found: install Node.js 20 or newer together with npm.");
  }
}

/** @param {string} what @param {string} stderr */
export function npmFailure(what, stderr) {
  const offline = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ECONNRESET|ENETUNREACH|network/i.test(stderr);
  return offline
    ? new SetupError(
        "E_NETWORK",
        `${what}, because the npm registry can't be reached: connect to the network (or set npm's proxy or registry) and run \`npm run setup\` again.`,
        { detail: stderr },
      )
    : new SetupError("E_NPM", `${what}: read npm's message above, then run \`npm run setup\` again.`, {
        detail: stderr,
      });
}
