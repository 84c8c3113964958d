/** The cache's promise: a folder with its final name is whole, whatever was killed and whoever else was at it. */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { publish, sweepTemporaries, withLock } from "../../scripts/cache.mjs";

let parent = "";
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), "halfbyte-cache-"));
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

/** The id of a process that has ended. */
function deadPid(): number {
  return spawnSync(process.execPath, ["--version"]).pid;
}

const target = () => join(parent, "thing-1.0");
const isWhole = () => existsSync(join(target(), "whole"));

function filler(content: string, delayMs = 0) {
  return async (work: string) => {
    const result = join(work, "result");
    mkdirSync(result);
    await new Promise((done) => setTimeout(done, delayMs));
    writeFileSync(join(result, "whole"), content);
    return result;
  };
}

describe("publish", () => {
  it("makes the target and leaves nothing else", async () => {
    await publish(target(), { isWhole, fill: filler("a") });
    expect(readdirSync(parent)).toEqual(["thing-1.0"]);
    expect(readFileSync(join(target(), "whole"), "utf8")).toBe("a");
  });

  it("makes the parents", async () => {
    const deep = join(parent, "x", "y", "thing");
    await publish(deep, { isWhole: () => false, fill: filler("a") });
    expect(existsSync(join(deep, "whole"))).toBe(true);
  });

  it("leaves no trace of a failure", async () => {
    const fill = async (work: string) => {
      writeFileSync(join(work, "half"), "");
      throw new Error("lost the network");
    };
    await expect(publish(target(), { isWhole, fill })).rejects.toThrow("lost the network");
    expect(readdirSync(parent)).toEqual([]);
  });

  it("lets the first of two win", async () => {
    await Promise.all([
      publish(target(), { isWhole, fill: filler("late", 60) }),
      publish(target(), { isWhole, fill: filler("early", 5) }),
    ]);
    expect(readdirSync(parent)).toEqual(["thing-1.0"]);
    expect(readFileSync(join(target(), "whole"), "utf8")).toBe("early");
  });

  it("replaces a broken target", async () => {
    mkdirSync(target());
    writeFileSync(join(target(), "half"), "");
    await publish(target(), { isWhole, fill: filler("a") });
    expect(readdirSync(target())).toEqual(["whole"]);
    expect(readdirSync(parent)).toEqual(["thing-1.0"]);
  });

  it("says what to set where the cache can't be written", async () => {
    writeFileSync(join(parent, "file"), "");
    const inFile = publish(join(parent, "file", "thing"), { isWhole, fill: filler("a") });
    await expect(inFile).rejects.toMatchObject({ code: "E_CACHE", message: expect.stringContaining("HALFBYTE_CACHE") });
  });
});

describe("sweepTemporaries", () => {
  const temporary = (host: string, pid: number) => {
    const name = `.tmp-${host}-${pid}-0123abcd`;
    mkdirSync(join(parent, name));
    return name;
  };

  it("removes what killed runs left, and nothing of the living", () => {
    temporary(hostname(), deadPid());
    const living = temporary(hostname(), process.pid);
    mkdirSync(join(parent, "thing-1.0"));
    sweepTemporaries(parent);
    expect(readdirSync(parent).sort()).toEqual([living, "thing-1.0"]);
  });

  it("gives another host's run a day", () => {
    const fresh = temporary("another-host", 1);
    const old = temporary("an-old-host", 1);
    utimesSync(join(parent, old), new Date(0), new Date(0));
    sweepTemporaries(parent);
    expect(readdirSync(parent)).toEqual([fresh]);
  });
});

describe("withLock", () => {
  const lock = () => join(parent, ".lock");

  it("runs one action at a time and unlocks, also after a failure", async () => {
    let running = 0;
    let most = 0;
    let waited = 0;
    const action = async () => {
      most = Math.max(most, ++running);
      await new Promise((done) => setTimeout(done, 20));
      running--;
    };
    const failing = withLock(
      lock(),
      () => Promise.reject(new Error("failed")),
      () => waited++,
    );
    await expect(failing).rejects.toThrow("failed");
    await Promise.all([1, 2, 3].map(() => withLock(lock(), action, () => waited++)));
    expect(most).toBe(1);
    expect(waited).toBe(2);
    expect(readdirSync(parent)).toEqual([]);
  });

  it("takes over the lock of a dead process", async () => {
    symlinkSync(String(deadPid()), lock());
    expect(
      await withLock(
        lock(),
        async () => "ran",
        () => {},
      ),
    ).toBe("ran");
    expect(readdirSync(parent)).toEqual([]);
  });
});
