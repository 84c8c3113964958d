/** A run that is followed while it goes: by `halfbyte watch`, and by `tail -f`. */
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { parseEventLine } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { type Ended, ensureBuilt, halfbyte, launcher } from "./halfbyte.ts";
import { eventsOf, ofType } from "./runFiles.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

describe("a run that goes on", () => {
  it("is shown by halfbyte watch, and every line that tail -f gives is whole", async () => {
    const base = temporaryFolder();
    const run = join(base, "a");
    const keys = [
      "steps=3000",
      "checkpoint_period=3000",
      "log_period=50",
      `base_output_directory=${base}`,
      "run_name=a",
    ];
    let watching: Promise<Ended> | undefined;
    let stopping = false;
    let tailed = "";
    const tail = spawn("tail", ["-n", "+1", "-F", join(run, "events.jsonl")], { stdio: ["ignore", "pipe", "ignore"] });
    tail.stdout.on("data", (piece: Buffer) => {
      tailed += piece.toString();
    });
    const training = await halfbyte(["train", ...tinyKeys, ...keys], {
      onOutput: (stdout, child) => {
        if (watching !== undefined || !stdout.includes("completed step: 50,")) return;
        watching = halfbyte(["watch", run], {
          onOutput: (shown) => {
            // It has caught up with a run that still goes.
            if (stopping || !shown.includes("completed step: 50,")) return;
            stopping = child.kill("SIGTERM");
          },
        });
      },
    });
    expect(training.exitCode, training.stderr).toBe(143);
    const watched = await watching!;
    const events = eventsOf(run);
    // tail looks for a file that was not there once a second, and a run this small may be over by then.
    await vi.waitFor(() => expect(tailed.split("\n").length).toBeGreaterThan(50), { timeout: 20_000 });
    tail.kill();
    const last = ofType(events, "step").at(-1)!.step;
    expect(watched).toMatchObject({ exitCode: 0, stderr: "" });
    expect(watched.stdout).toMatch(/^[\d,]+ parameters, /m);
    expect(watched.stdout).not.toContain("completed step: 51,");
    expect(watched.stdout).toContain(`interrupted after step ${last}\n`);
    const lines = tailed.trimEnd().split("\n");
    expect(lines.map(parseEventLine)).toEqual(events.slice(0, lines.length));
    expect(lines.length).toBeGreaterThan(50);
  });

  it("is over where its process is gone; a folder without a run is a mistake", async () => {
    const base = temporaryFolder({ "gone/events.jsonl": "", "gone/run.lock": "999999999", "empty/notes.txt": "" });
    const events = join(base, "gone", "events.jsonl");
    appendFileSync(events, '{"type":"note","time":"2026-01-02T03:04:05.678Z","message":"hello"}\n');
    const gone = await halfbyte(["watch", join(base, "gone"), "--json"]);
    expect(gone.exitCode).toBe(1);
    expect(gone.stdout).toBe('{"type":"note","time":"2026-01-02T03:04:05.678Z","message":"hello"}\n');
    expect(gone.stderr).toBe("hello\nthe run stopped without an end: its process is gone\n");
    const none = await halfbyte(["watch", join(base, "empty")]);
    expect(none.exitCode).toBe(2);
    expect(none.stderr).toContain("is no folder of a run: it has no events.jsonl");
  });
});

describe("halfbyte watch without a run", () => {
  it("says which there are, newest first", async () => {
    const folder = temporaryFolder({ "runs/old/events.jsonl": "", "runs/new/events.jsonl": "", "runs/no/x": "" });
    utimesSync(join(folder, "runs/old/events.jsonl"), 1, 1);
    const message = (cwd: string) => spawnSync(launcher, ["watch"], { cwd, encoding: "utf8" });
    expect(message(folder)).toMatchObject({
      status: 2,
      stdout: "",
      stderr: `halfbyte: the run's folder is missing: halfbyte watch RUN; newest first, the runs in runs are\n  ${join("runs", "new")}\n  ${join("runs", "old")}\n`,
    });
    expect(message(join(folder, "runs")).stderr).toContain(
      "RUN is base_output_directory/run_name; there are none in runs",
    );
  });
});
