/** Runs a TypeScript file of test/pjrt/children as a process of its own, bundled once per test run. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
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

/** Inside node_modules, where the bundle finds koffi and git ignores it. */
async function bundle(name: string): Promise<string> {
  const outDir = mkdtempSync(resolve("node_modules", ".halfbyte-test-"));
  process.on("exit", () => import("node:fs").then(({ rmSync }) => rmSync(outDir, { recursive: true, force: true })));
  await build({
    configFile: false,
    logLevel: "error",
    build: {
      ssr: resolve("test/pjrt/children", `${name}.ts`),
      outDir,
      target: "node20",
      minify: false,
      rollupOptions: { output: { entryFileNames: "child.mjs" } },
    },
  });
  return join(outDir, "child.mjs");
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
  const child = spawn(process.execPath, [script, ...args], { env: { ...process.env, ...env } });
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
