/** The set-up script as a process, with a pip that is played by a shell script: killed half-way, run twice at once, run again. */
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { build, buildIsCurrent } from "../../scripts/build.mjs";
import { mainPlugin, pluginIsInstalled } from "../../scripts/plugin.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const script = join(root, "scripts", "setup.mjs");
const installed = `${mainPlugin.package}-${mainPlugin.version}`;

const writeLibrary = (text: string) => `mkdir -p "$target/${dirname(mainPlugin.library)}"
echo ${text} > "$target/${mainPlugin.library}"`;
const GOOD_PIP = writeLibrary("whole");
/** Stops half-way, where the test kills the set-up. */
const STUCK_PIP = `${writeLibrary("half")}
echo > "$here/stuck"
exec sleep 20`;

let folder = "";
let cache = "";

beforeAll(async () => {
  if (!buildIsCurrent(root)) await build(root);
});

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "halfbyte-setup-"));
  cache = join(folder, "cache");
  mkdirSync(join(folder, "bin"));
  // The PATH is this folder alone: what the played pip needs, and nothing else.
  for (const program of ["mkdir", "sleep"]) symlinkSync(`/bin/${program}`, join(folder, "bin", program));
  playPip(GOOD_PIP);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Puts a `python3` on the PATH that logs its call and then does what `body` says; $target is pip's --target. */
function playPip(body: string): void {
  const text = `#!/bin/sh
here='${folder}'
echo "$@" >> "$here/calls"
while [ $# -gt 0 ]; do
  [ "$1" = --target ] && target=$2
  shift
done
${body}
`;
  writeFileSync(join(folder, "bin", "python3"), text, { mode: 0o755 });
}

const pipCalls = () =>
  existsSync(join(folder, "calls")) ? readFileSync(join(folder, "calls"), "utf8").trim().split("\n").length : 0;

const inCache = () => readdirSync(join(cache, "plugins"));

function start(args: string[] = [], env: NodeJS.ProcessEnv = {}) {
  const { HALFBYTE_PJRT_PLUGIN: _, ...inherited } = process.env;
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...inherited, PATH: join(folder, "bin"), HALFBYTE_CACHE: cache, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (text) => {
    output.stdout += text;
  });
  child.stderr.on("data", (text) => {
    output.stderr += text;
  });
  const ended = new Promise<{ exitCode: number | null; stdout: string; stderr: string }>((resolve) => {
    child.on("close", (exitCode) => resolve({ exitCode, ...output }));
  });
  return { child, ended };
}

const setUp = (args?: string[], env?: NodeJS.ProcessEnv) => start(args, env).ended;

/** Starts a set-up, waits until its pip is half-way, and sends the signal. */
async function interrupt(signal: NodeJS.Signals) {
  playPip(STUCK_PIP);
  const { child, ended } = start();
  const stuck = join(folder, "stuck");
  for (let i = 0; i < 200 && !existsSync(stuck); i++) await new Promise((done) => setTimeout(done, 50));
  expect(existsSync(stuck)).toBe(true);
  child.kill(signal);
  const result = await ended;
  rmSync(stuck);
  playPip(GOOD_PIP);
  return result;
}

describe("npm run setup", () => {
  it("does what is missing, once, and then takes no time", async () => {
    const first = await setUp();
    expect(first).toMatchObject({ exitCode: 0, stderr: "" });
    expect(first.stdout).toContain(mainPlugin.package);
    expect(first.stdout).toMatch(/native CPU kernels.*\n.*skipped: no C\+\+ compiler/);
    expect(pluginIsInstalled(cache, mainPlugin)).toBe(true);
    const begin = performance.now();
    const second = await setUp(["--json"]);
    expect(performance.now() - begin).toBeLessThan(2000);
    expect(second.exitCode).toBe(0);
    const { ok, steps } = JSON.parse(second.stdout);
    expect(ok).toBe(true);
    expect(steps.map(({ step, state }: { step: string; state: string }) => `${step} ${state}`)).toEqual([
      "dependencies present",
      "build present",
      "plugin present",
      "second-plugin skipped",
      "native-kernels skipped",
      "large-blocks skipped",
      "demo-text skipped",
    ]);
    expect(pipCalls()).toBe(1);
  });

  it("goes on without native kernels where the compiler fails, and says so", async () => {
    const failing =
      "#!/bin/sh\n[ $1 = --version ] && echo played && exit 0\necho 'x.cpp: error: no such instruction' >&2\nexit 1\n";
    writeFileSync(join(folder, "bin", "c++"), failing, { mode: 0o755 });
    const { exitCode, stdout } = await setUp();
    expect(exitCode).toBe(0);
    expect(stdout).toContain("skipped: c++ failed: x.cpp: error: no such instruction");
    expect(existsSync(join(cache, "native")) ? readdirSync(join(cache, "native")) : []).toEqual([]);
  });

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("cleans up on %s, exits %d, and goes on at the next run", async (signal, exitCode) => {
    expect(await interrupt(signal)).toMatchObject({ exitCode, stderr: expect.stringContaining("next run") });
    expect(inCache()).toEqual([]);
    expect(await setUp()).toMatchObject({ exitCode: 0 });
    expect(inCache()).toEqual([installed]);
  });

  it("survives being killed", async () => {
    await interrupt("SIGKILL");
    expect(pluginIsInstalled(cache, mainPlugin)).toBe(false);
    expect(inCache()).toHaveLength(1);
    expect(await setUp()).toMatchObject({ exitCode: 0 });
    expect(inCache()).toEqual([installed]);
    expect(pluginIsInstalled(cache, mainPlugin)).toBe(true);
  });

  it("may run twice at once", async () => {
    const results = await Promise.all([setUp(), setUp()]);
    expect(results.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
    expect(inCache()).toEqual([installed]);
    expect(pluginIsInstalled(cache, mainPlugin)).toBe(true);
  });

  it("leaves a plugin of the user's alone", async () => {
    const result = await setUp([], { HALFBYTE_PJRT_PLUGIN: "/some/plugin.so" });
    expect(result).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("HALFBYTE_PJRT_PLUGIN is set") });
    expect(pipCalls()).toBe(0);
  });
});

describe("its failures are one sentence with the fix", () => {
  const lastLine = (text: string) => text.trimEnd().split("\n").at(-1);

  it("without python3", async () => {
    rmSync(join(folder, "bin", "python3"));
    const { exitCode, stderr } = await setUp();
    expect(exitCode).toBe(1);
    expect(stderr.trimEnd()).toMatch(/^python3 was not found[^\n]*apt install python3-pip[^\n]*\.$/);
  });

  it("without pip", async () => {
    playPip(`echo "/usr/bin/python3: No module named pip" >&2; exit 1`);
    const { exitCode, stderr } = await setUp();
    expect(exitCode).toBe(1);
    expect(lastLine(stderr)).toMatch(/^python3 has no pip.*apt install python3-pip.*\.$/);
  });

  it("as JSON, where that is asked for", async () => {
    playPip(`echo "Retrying: NewConnectionError" >&2; exit 1`);
    const { exitCode, stdout } = await setUp(["--json"]);
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ ok: false, error: { code: "E_NETWORK" } });
  });

  it("for an unknown option", async () => {
    expect(await setUp(["--demoo"])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('"--demoo"') });
  });
});
