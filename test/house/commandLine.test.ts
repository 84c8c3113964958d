/** The command line as a process, through the launcher. */
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { build, buildIsCurrent } from "../../scripts/build.mjs";
import { glibcVersion } from "../../scripts/plugin.mjs";
import { commands } from "../../src/cli/command.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const launcher = join(root, "bin", "halfbyte");
const packageVersion = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version as string;

let folder = "";
beforeAll(async () => {
  if (!buildIsCurrent(root)) await build(root);
  folder = mkdtempSync(join(tmpdir(), "halfbyte-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function start(program: string, args: readonly string[], env: NodeJS.ProcessEnv) {
  const {
    GLIBC_TUNABLES: _,
    HALFBYTE_NO_TUNABLES: __,
    HALFBYTE_DEBUG: ___,
    LD_PRELOAD: ____,
    ...inherited
  } = process.env;
  const { status, stdout, stderr } = spawnSync(program, args, {
    env: { ...inherited, ...env },
    encoding: "utf8",
    timeout: 60_000,
  });
  return { exitCode: status, stdout, stderr };
}

const halfbyte = (args: readonly string[], env: NodeJS.ProcessEnv = {}) => start(launcher, args, env);

describe("halfbyte", () => {
  it("shows its commands, quickly", () => {
    const seconds = [1, 2, 3].map(() => {
      const begin = performance.now();
      const { exitCode, stdout, stderr } = halfbyte(["--help"]);
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      for (const { name, summary } of commands) expect(stdout).toMatch(new RegExp(`^ {2}${name} +${summary}$`, "m"));
      return (performance.now() - begin) / 1000;
    });
    expect(Math.min(...seconds)).toBeLessThan(0.5);
  });

  it("shows the same without arguments", () => {
    expect(halfbyte([])).toEqual(halfbyte(["--help"]));
    expect(halfbyte(["help"])).toEqual(halfbyte(["--help"]));
  });

  it("knows its version", () => {
    expect(halfbyte(["--version"])).toEqual({ exitCode: 0, stdout: `${packageVersion}\n`, stderr: "" });
    expect(JSON.parse(halfbyte(["--version", "--json"]).stdout)).toEqual({ version: packageVersion });
    expect(
      JSON.parse(halfbyte(["--help", "--json"]).stdout).commands.map(({ name }: { name: string }) => name),
    ).toEqual(commands.map(({ name }) => name));
  });

  it.each(commands.map(({ name }) => name))("%s --help has an example and --json", (name) => {
    const { exitCode, stdout, stderr } = halfbyte([name, "--help"]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(new RegExp(`^Usage: .*halfbyte ${name}`, "m"));
    expect(stdout).toContain("--json");
    expect(stdout).toMatch(new RegExp(`^Example: halfbyte ${name}`, "m"));
    expect(halfbyte(["help", name]).stdout).toBe(stdout);
  });

  it("names the nearest command for an unknown one, exit 2", () => {
    expect(halfbyte(["doctr"])).toEqual({
      exitCode: 2,
      stdout: "",
      stderr: 'halfbyte: unknown command "doctr"; did you mean "doctor"?\n',
    });
    expect(halfbyte(["doctr", "--json"])).toEqual({
      exitCode: 2,
      stdout: '{"error":{"code":"E_COMMAND","message":"unknown command \\"doctr\\"; did you mean \\"doctor\\"?"}}\n',
      stderr: "",
    });
    expect(halfbyte(["xyzzyplugh"])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--help") });
  });

  it("refuses an unknown option of a command, exit 2", () => {
    expect(halfbyte(["doctor", "--jason"])).toMatchObject({
      exitCode: 2,
      stderr: 'halfbyte: unknown option "--jason"; did you mean --json?\n',
    });
  });

  it("shows stacks only where asked", () => {
    expect(halfbyte(["doctr"], { HALFBYTE_DEBUG: "1" }).stderr).toMatch(/\n {4}at .*main/);
  });
});

describe("a bad plugin path gives exit 2 and one sentence", () => {
  it.each([
    ["a missing file", () => join(folder, "none.so"), /no such file/],
    ["a folder", () => folder, /not a file/],
    ["a text file", () => join(root, "package.json"), /not a (PJRT plugin|Linux shared library)/],
  ])("%s", (_, path, reason) => {
    const { exitCode, stdout, stderr } = halfbyte(["doctor"], { HALFBYTE_PJRT_PLUGIN: path() });
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toMatch(/^halfbyte: [^\n]+\n$/);
    expect(stderr).toMatch(reason);
  });

  it("no plugin at all", () => {
    const { exitCode, stderr } = halfbyte(["doctor"], { HALFBYTE_PJRT_PLUGIN: "", HALFBYTE_CACHE: folder });
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^halfbyte: [^\n]+setup[^\n]+\n$/);
  });
});

describe("the launcher", () => {
  /** A folder whose `node` prints its arguments and the two variables. */
  function playedNode(): string {
    const bin = join(folder, "played");
    mkdirSync(bin, { recursive: true });
    const text = `#!/bin/sh\necho "tunables=\${GLIBC_TUNABLES-none} log=\${TF_CPP_MIN_LOG_LEVEL-none}"\necho "$@"\necho "preload=\${LD_PRELOAD-none}"\n`;
    writeFileSync(join(bin, "node"), text, { mode: 0o755 });
    return `${bin}:${process.env.PATH}`;
  }
  const withPlayedNode = (args: string[], env: NodeJS.ProcessEnv = {}) => {
    const { stdout } = start(launcher, args, { TF_CPP_MIN_LOG_LEVEL: undefined, PATH: playedNode(), ...env });
    const [variables = "", command, preload] = stdout.trimEnd().split("\n");
    return { variables, command, preload };
  };

  it.skipIf(glibcVersion() === undefined)("makes glibc keep memory (on glibc)", () => {
    expect(withPlayedNode(["doctor"]).variables).toBe(
      "tunables=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=100000000000:glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.top_pad=268435456 log=3",
    );
  });

  it.skipIf(glibcVersion() === undefined)("preloads the allocator of large blocks where it is built", () => {
    const cache = join(folder, "cache");
    expect(withPlayedNode([], { HALFBYTE_CACHE: cache }).preload).toBe("preload=none");
    mkdirSync(join(cache, "native"), { recursive: true });
    const path = join(cache, "native", "large-blocks.so");
    writeFileSync(path, "");
    expect(withPlayedNode([], { HALFBYTE_CACHE: cache }).preload).toBe(`preload=${path}`);
    expect(withPlayedNode([], { HALFBYTE_CACHE: cache, HALFBYTE_NO_TUNABLES: "1" }).preload).toBe("preload=none");
    expect(withPlayedNode([], { HALFBYTE_CACHE: cache, LD_PRELOAD: "own.so" }).preload).toBe("preload=own.so");
    const spaced = join(folder, "a cache");
    cpSync(cache, spaced, { recursive: true });
    expect(withPlayedNode([], { HALFBYTE_CACHE: spaced }).preload).toBe("preload=none");
  });

  it("leaves the user's settings alone", () => {
    const env = { GLIBC_TUNABLES: "glibc.malloc.check=0", TF_CPP_MIN_LOG_LEVEL: "0" };
    expect(withPlayedNode([], env).variables).toBe("tunables=glibc.malloc.check=0 log=0");
    expect(withPlayedNode([], { HALFBYTE_NO_TUNABLES: "1" }).variables).toBe("tunables=none log=3");
  });

  it("passes arguments through, and set-up to the script", () => {
    expect(withPlayedNode(["train", "run_name=a"]).command).toBe(`${join(root, "dist/cli/main.js")} train run_name=a`);
    expect(withPlayedNode(["setup", "--demo"]).command).toBe(`${join(root, "scripts/setup.mjs")} --demo`);
  });

  it("works through symbolic links, absolute and relative", () => {
    const absolute = join(folder, "hb-absolute");
    const relative = join(folder, "hb-relative");
    symlinkSync(launcher, absolute);
    symlinkSync("hb-absolute", relative);
    expect(start(relative, ["--version"], {}).stdout).toBe(`${packageVersion}\n`);
  });

  it("says in one sentence that a clone is not set up", () => {
    const clone = join(folder, "a clone");
    mkdirSync(join(clone, "bin"), { recursive: true });
    mkdirSync(join(clone, "src"));
    copyFileSync(launcher, join(clone, "bin", "halfbyte"));
    const { exitCode, stdout, stderr } = start(join(clone, "bin", "halfbyte"), ["--help"], {});
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
    expect(stderr).toMatch(/^Halfbyte is not set up yet: run `npm run setup` in .*a clone first\.\n$/);
    // Built, but without its packages.
    mkdirSync(join(clone, "dist", "cli"), { recursive: true });
    writeFileSync(join(clone, "dist", "cli", "main.js"), "");
    expect(start(join(clone, "bin", "halfbyte"), [], {}).stderr).toContain("npm run setup");
  });
});
