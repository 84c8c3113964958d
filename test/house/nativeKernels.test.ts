/** The kernels' part of the set-up, with a played compiler. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { findCompiler } from "../../scripts/compiler.mjs";
import { buildKernels, kernelFolder, kernelsAreBuilt } from "../../scripts/nativeKernels.mjs";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "halfbyte-kernels-"));
  mkdirSync(join(folder, "native"));
  writeFileSync(join(folder, "native", "rows.cpp"), "int x;\n");
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function program(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return path;
}

/** Tells its version, and writes its arguments where `-o` says. */
const playedCompiler = `[ "$1" = --version ] && echo 'played 1.0' && exit 0
all="$*"
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo "$all" >"$2"; shift; done`;

const found = async () => {
  const answer = await findCompiler();
  if ("reason" in answer) throw new Error(answer.reason);
  return answer;
};

describe.skipIf(process.platform !== "linux" || process.arch !== "x64")("the native kernels' compiler", () => {
  it("may be a command with arguments", async () => {
    const compiler = program("compiler", playedCompiler);
    vi.stubEnv("CXX", `${program("wrapper", 'shift\nexec "$@"')} --quiet ${compiler}`);
    const { version } = await found();
    expect(version).toBe("played 1.0");
    const cache = join(folder, "cache");
    await buildKernels(cache, folder, await found());
    expect(kernelsAreBuilt(cache, folder)).toBe(true);
    const library = readFileSync(join(kernelFolder(cache, folder), "libhalfbyte_kernels.so"), "utf8");
    expect(library).toMatch(/^-shared .*rows\.cpp\.avx2\.o.*rows\.cpp\.avx512\.o/);
  });

  it.each([
    ["no-such-compiler", 'CXX is "no-such-compiler", which is not there'],
    ["no-such-wrapper g++", 'CXX is "no-such-wrapper g++", which is not there (no program no-such-wrapper)'],
  ])("%s is named where it is not there", async (compiler, reason) => {
    vi.stubEnv("CXX", compiler);
    expect(await findCompiler()).toEqual({ reason: expect.stringContaining(reason) });
  });

  it("is named where it fails, with its own words", async () => {
    const compiler = program("failing", "echo 'no licence' >&2\nexit 3");
    vi.stubEnv("CXX", compiler);
    const reason = `CXX is "${compiler}", which fails with exit code 3: no licence`;
    expect(await findCompiler()).toEqual({ reason: expect.stringContaining(reason) });
  });

  it("builds a library again that is cut off, changed or gone", async () => {
    vi.stubEnv("CXX", program("compiler", playedCompiler));
    const cache = join(folder, "cache");
    const library = join(kernelFolder(cache, folder), "libhalfbyte_kernels.so");
    const spoil = [
      () => truncateSync(library, 10),
      () => writeFileSync(library, "another one"),
      () => rmSync(library),
      () => writeFileSync(join(kernelFolder(cache, folder), "halfbyte.json"), "{"),
    ];
    for (const damage of [() => {}, ...spoil]) {
      if (existsSync(library)) damage();
      expect(kernelsAreBuilt(cache, folder)).toBe(false);
      await buildKernels(cache, folder, await found());
      expect(kernelsAreBuilt(cache, folder)).toBe(true);
    }
  });
});
