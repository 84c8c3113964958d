/** Trial G3 of public bug reports: installing downloads nothing but packages, runs no script, and an unsupported system says so. */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { npmFailure, runNpm } from "../../scripts/dependencies.mjs";
import { checkPlatform } from "../../scripts/plugin.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "halfbyte-install-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("G3: installation", () => {
  it("has no script of its own that npm runs when it installs", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const automatic = ["preinstall", "install", "postinstall", "prepare", "prepublish", "preprepare", "postprepare"];
    expect(Object.keys(scripts).filter((name) => automatic.includes(name))).toEqual([]);
  });

  it("with --ignore-scripts gives packages that work: none needs its install script", async (context) => {
    for (const file of ["package.json", "package-lock.json", ".npmrc"])
      copyFileSync(join(root, file), join(folder, file));
    const args = ["ci", "--ignore-scripts", "--omit=dev", "--prefer-offline", "--no-audit", "--loglevel=error"];
    const { exitCode, stderr } = await runNpm(args, folder);
    context.skip(exitCode !== 0 && npmFailure("", stderr).code === "E_NETWORK", "no network: npm reaches no registry");
    expect(exitCode, stderr).toBe(0);

    // The native part is in the package: it loads and calls into the C library.
    const load = `const { default: koffi } = await import("koffi");
      const getpid = koffi.load("libc.so.6").func("int getpid()");
      console.log(getpid() === process.pid, typeof (await import("@huggingface/tokenizers")).Tokenizer);`;
    const printed = execFileSync(process.execPath, ["--input-type=module", "-e", load], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(printed.trim()).toBe("true function");
  });

  it.each([
    [{ platform: "darwin", arch: "arm64", glibc: undefined }, /macOS on arm64: .*HALFBYTE_PJRT_PLUGIN/],
    [{ platform: "win32", arch: "x64", glibc: undefined }, /Windows on x64: /],
    [{ platform: "linux", arch: "arm64", glibc: "2.36" }, /Linux on arm64: /],
    [
      { platform: "linux", arch: "x64", glibc: undefined },
      /needs glibc 2\.27 or newer, but this system has a C library other than glibc/,
    ],
  ])("says so where the system is not supported: %j", (system, message) => {
    expect(() => checkPlatform(system)).toThrow(message);
  });
});
