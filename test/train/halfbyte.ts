/** The command line as a process, through the launcher, on the current sources. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, buildIsCurrent } from "../../scripts/build.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
export const launcher = join(root, "bin", "halfbyte");

/** For `beforeAll`. */
export async function ensureBuilt(): Promise<void> {
  if (!buildIsCurrent(root)) await build(root);
}

export interface Ended {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartOptions {
  /** Called at each piece of standard output, with all of it so far. */
  readonly onOutput?: (stdout: string, child: ChildProcess) => void;
  readonly program?: string;
}

export function halfbyte(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
  const child = spawn(options.program ?? launcher, args, { stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
    options.onOutput?.(stdout, child);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const limit = setTimeout(() => child.kill("SIGKILL"), 90_000);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (exitCode, signal) => {
      clearTimeout(limit);
      resolve({ exitCode, signal, stdout, stderr });
    });
  });
}
