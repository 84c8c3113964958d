import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockRun, makeRunFolder, refuseRunFolder, runFolder } from "../../src/checkpoint/index.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

let base = "";
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "halfbyte-lock-"));
});
afterEach(() => rmSync(base, { recursive: true }));

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "gone";
  }
}

describe("the folder of a run", () => {
  it("that a file system does not make is refused at once", () => {
    expect(() => makeRunFolder(runFolder("/proc/halfbyte", "run"))).toThrow(/can't be written/);
  });
});

describe("a folder of checkpoints that can't be written", () => {
  it("is refused although the run's folder can be", () => {
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    expect(() => refuseRunFolder(folder)).not.toThrow();
    writeFileSync(folder.checkpoints, "");
    expect(() => refuseRunFolder(folder)).toThrow(
      `the run's folder ${folder.path} can't be written (${folder.checkpoints} is a file): choose another base_output_directory or run_name`,
    );
  });
});

describe("the lock of a run", () => {
  it("keeps another living process out, and names it", () => {
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    const other = spawn("sleep", ["30"]);
    writeFileSync(join(folder.path, "run.lock"), String(other.pid));
    try {
      expect(() => lockRun(folder)).toThrow(
        `is in use by process ${other.pid}: wait for it, or choose another run_name`,
      );
    } finally {
      other.kill();
    }
  });

  it("does not count for another process that got the number of one that is gone", () => {
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    writeFileSync(join(folder.path, "run.lock"), "1 1234567890");
    lockRun(folder)();
  });

  it("stays with a process that locks again, until its first release", () => {
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    const [unlock, again] = [lockRun(folder), lockRun(folder)];
    again();
    expect(existsSync(join(folder.path, "run.lock"))).toBe(false);
    // Another process may have it by then.
    writeFileSync(join(folder.path, "run.lock"), "1");
    unlock();
    expect(existsSync(join(folder.path, "run.lock"))).toBe(true);
  });

  it("of a process that is gone is taken over by one of those that want it at the same time", async () => {
    await ensureBuilt();
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    const module = new URL("../../dist/checkpoint/runFolder.js", import.meta.url).href;
    const script = `import { lockRun } from ${JSON.stringify(module)};
      while (Date.now() < Number(process.argv[1])) {}
      try { lockRun(${JSON.stringify(folder)}); console.log("has it"); } catch (error) { console.log(error.code); }
      setTimeout(() => {}, 500);`;
    for (let round = 0; round < 3; round++) {
      writeFileSync(join(folder.path, "run.lock"), "999999999");
      const start = String(Date.now() + 500);
      const contenders = Array.from({ length: 6 }, () =>
        halfbyte(["--input-type=module", "--eval", script, start], { program: process.execPath }),
      );
      const said = (await Promise.all(contenders)).map(({ stdout }) => stdout.trim()).sort();
      expect(said).toEqual([...Array(5).fill("E_RUN_IN_USE"), "has it"]);
      expect(readdirSync(folder.path)).toEqual([]);
    }
  });

  it("has its owner from the first moment on", async () => {
    await ensureBuilt();
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    const module = new URL("../../dist/checkpoint/runFolder.js", import.meta.url).href;
    const script = `import { lockRun } from ${JSON.stringify(module)};
      const end = Date.now() + 1500;
      while (Date.now() < end) lockRun(${JSON.stringify(folder)})();`;
    let running = true;
    const ended = halfbyte(["--input-type=module", "--eval", script], { program: process.execPath }).finally(() => {
      running = false;
    });
    const read = new Set<string>();
    while (running) {
      for (let i = 0; i < 1000; i++) {
        if (existsSync(join(folder.path, "run.lock"))) read.add(textOf(join(folder.path, "run.lock")));
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await ended).stderr).toBe("");
    read.delete("gone");
    expect([...read]).toEqual([expect.stringMatching(/^\d+ \d+$/)]);
    expect(readdirSync(folder.path)).toEqual([]);
  });

  it("that is empty is of a process that is just making it, and later of one that died over it; torn text is nobody's", () => {
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    const file = join(folder.path, "run.lock");
    writeFileSync(file, "");
    expect(() => lockRun(folder)).toThrow(/is in use by another process: [^\n]+run\.lock\)$/);
    const minuteAgo = Date.now() / 1000 - 60;
    utimesSync(file, minuteAgo, minuteAgo);
    lockRun(folder)();
    expect(existsSync(file)).toBe(false);
    writeFileSync(file, "12x");
    lockRun(folder)();
    expect(existsSync(file)).toBe(false);
  });

  it("is taken over from a process that is gone, and is given back", () => {
    const folder = runFolder(base, "run");
    makeRunFolder(folder);
    writeFileSync(join(folder.path, "run.lock"), "999999999");
    const unlock = lockRun(folder);
    expect(existsSync(join(folder.path, "run.lock"))).toBe(true);
    unlock();
    expect(existsSync(join(folder.path, "run.lock"))).toBe(false);
  });
});
