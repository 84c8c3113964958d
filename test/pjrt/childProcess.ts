/** Runs a TypeScript file of test/pjrt/children as a process of its own, bundled once per test run. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "vite";

export interface ChildResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly seconds: number;
}

export interface ChildOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Sent as soon as the child prints a line "ready". */
  readonly signal?: NodeJS.Signals;
  readonly timeoutSeconds?: number;
}

const bundles = new Map<string, Promise<string>>();

/** The file and what it imports as one module's text; koffi is found from the working directory. */
async function bundle(name: string): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "error",
    build: {
      ssr: resolve("test/pjrt/children", `${name}.ts`),
      write: false,
      target: "node20",
      minify: false,
    },
  });
  const { output } = (Array.isArray(built) ? built[0] : built) as { output: readonly { code?: string }[] };
  const [chunk, ...others] = output;
  if (chunk?.code === undefined || others.length > 0) throw new Error(`${name} did not become one module`);
  return chunk.code;
}

export async function runChild(name: string, options: ChildOptions = {}): Promise<ChildResult> {
  let made = bundles.get(name);
  if (made === undefined) {
    made = bundle(name);
    bundles.set(name, made);
  }
  const script = await made;
  const { args = [], env = {}, signal, timeoutSeconds = 60 } = options;
  const started = performance.now();
  const child = spawn(process.execPath, ["--input-type=module", "-", ...args], { env: { ...process.env, ...env } });
  child.stdin.end(script);
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
    if (signal !== undefined && stdout.includes("ready")) child.kill(signal);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutSeconds * 1000);
  return new Promise((done) => {
    child.on("close", (code, endSignal) => {
      clearTimeout(timer);
      done({ code, signal: endSignal, stdout, stderr, seconds: (performance.now() - started) / 1000 });
    });
  });
}

/** Where the set-up script installs a plugin, or undefined where it is not there. */
export function installedPlugin(folder: string, library: string): string | undefined {
  const cache = process.env.HALFBYTE_CACHE || join(process.env.HOME ?? "", ".cache", "halfbyte");
  const path = join(cache, "plugins", folder, library);
  return existsSync(path) ? path : undefined;
}
