import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  checkpointPath,
  listCheckpoints,
  loadCheckpoint,
  newestCheckpoint,
  openSafetensors,
  type Progress,
  provenanceKey,
  saveCheckpoint,
  unfinishedFolders,
  weightFormats,
} from "../../src/checkpoint/index.ts";
import { quantizeModel } from "../../src/convert/index.ts";
import { hostArray, treeLeaves } from "../../src/core/index.ts";
import { initialState } from "../../src/train/state.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { tinyModel } from "../train/tinyRun.ts";

const progress = (step: number): Progress => ({
  step,
  skippedInARow: 1,
  skippedSteps: 2,
  overflowSteps: 3,
  data: { tokens: "abc" },
  provenance: { recipe: "bf16" },
});

/** A state whose every array is its own. */
function someState() {
  const state = initialState(tinyModel, 5);
  treeLeaves<{ data: Float32Array }>([state.optimizer.mu, state.optimizer.nu]).forEach(({ data }, i) => {
    data.forEach((_, j) => {
      data[j] = Math.sin(i * 31 + j) * 1e-3;
    });
  });
  // What arithmetic would not keep: a subnormal, a negative zero.
  (state.params.embed.data as Float32Array).set([1e-42, -0, 3.4e38]);
  return { params: state.params, optimizer: { ...state.optimizer, count: hostArray([], "int32", Int32Array.of(41)) } };
}

const save = (folder: string, step: number, last?: number) =>
  saveCheckpoint(folder, someState(), progress(step), last === undefined ? {} : { last });
const names = (folder: string) => readdirSync(folder).sort();
type Listed = Readonly<Record<string, unknown>>;
/** Writes another list into a manifest. */
function relist(folder: string, change: (files: Listed) => Listed): void {
  const path = join(folder, "manifest.json");
  const { files } = JSON.parse(readFileSync(path, "utf8"));
  writeFileSync(path, JSON.stringify({ format: 1, files: change(files) }));
}

describe("a checkpoint", () => {
  it("gives back every bit of the state, and what is known beside it", async () => {
    const folder = join(temporaryFolder(), "checkpoints");
    const { path } = await save(folder, 10);
    expect(path).toBe(join(folder, "step-00000010"));
    expect(names(path)).toEqual(["manifest.json", "optimizer.safetensors", "params.safetensors", "state.json"]);
    const { params, optimizer, progress: read } = await loadCheckpoint(path, tinyModel);
    const bytes = (tree: unknown) =>
      treeLeaves<{ data: Float32Array }>(tree).map(({ data }) => Buffer.from(data.buffer).toString("base64"));
    expect(bytes(params)).toEqual(bytes(someState().params));
    expect(bytes(optimizer)).toEqual(bytes(someState().optimizer));
    expect(read).toEqual(progress(10));
  });

  it("names its tensors as Hugging Face does", async () => {
    const { path } = await save(temporaryFolder(), 1);
    const params = await openSafetensors(join(path, "params.safetensors"));
    expect([...params.tensors.keys()]).toContain("model.layers.1.self_attn.q_proj.weight");
    expect(params.tensors.get("model.embed_tokens.weight")).toMatchObject({ dtype: "float32", shape: [64, 32] });
    await params.close();
    const optimizer = await openSafetensors(join(path, "optimizer.safetensors"));
    expect([...optimizer.tensors.keys()]).toEqual(
      expect.arrayContaining(["count", "mu.model.norm.weight", "nu.model.norm.weight"]),
    );
    await optimizer.close();
  });

  it("says in its parameters' file what computed them, and what is made of that file says so too", async () => {
    const known = { ...progress(7), stepsByPrecision: { nvfp4: 5, bf16: 2 } };
    const { path } = await saveCheckpoint(temporaryFolder(), someState(), known);
    const ofFile = async (file: string) => {
      const opened = await openSafetensors(file);
      await opened.close();
      return JSON.parse(opened.metadata[provenanceKey]!);
    };
    const told = { step: 7, stepsByPrecision: { nvfp4: 5, bf16: 2 }, recipe: "bf16" };
    const params = join(path, "params.safetensors");
    expect(await ofFile(params)).toEqual(told);
    const output = join(temporaryFolder(), "packed");
    await quantizeModel(params, output, { format: weightFormats.nvfp4a16 });
    expect(await ofFile(join(output, "model.safetensors"))).toEqual(told);
  });

  it("is the same file for the same state", async () => {
    const [a, b] = [await save(temporaryFolder(), 1), await save(temporaryFolder(), 1)];
    for (const file of names(a.path))
      expect(readFileSync(join(a.path, file)).equals(readFileSync(join(b.path, file)))).toBe(true);
  });

  it("is not loaded into another model", async () => {
    const { path } = await save(temporaryFolder(), 1);
    await expect(loadCheckpoint(path, { ...tinyModel, mlpDim: 64 })).rejects.toThrow(
      /mlp\.gate_proj\.weight" is float32\[48,32\]/,
    );
    await expect(loadCheckpoint(path, { ...tinyModel, numLayers: 3 })).rejects.toThrow(
      /model\.layers\.2\..* is missing/,
    );
  });

  it("is never made of what is not finite; the ones before stay", async () => {
    for (const [where, change] of [
      ["model.norm.weight", (s: ReturnType<typeof someState>) => (s.params.norm.data[3] = Number.NaN)],
      [
        "nu.model.layers.0.mlp.down_proj.weight",
        (s: ReturnType<typeof someState>) => (s.optimizer.nu.layers[0]!.down.data[7] = Number.POSITIVE_INFINITY),
      ],
    ] as const) {
      const folder = temporaryFolder();
      await save(folder, 1);
      const bad = someState();
      change(bad);
      await expect(saveCheckpoint(folder, bad, progress(2), { last: 1 })).rejects.toThrow(`of ${where} is`);
      expect(names(folder)).toEqual(["step-00000001"]);
    }
  });
});

describe("the folder of checkpoints", () => {
  it("keeps the newest ones", async () => {
    const folder = temporaryFolder();
    for (const step of [1, 2, 3, 10]) await save(folder, step, 2);
    expect(listCheckpoints(folder).map(({ step }) => step)).toEqual([3, 10]);
    await save(folder, 11);
    expect(listCheckpoints(folder).map(({ step }) => step)).toEqual([3, 10, 11]);
  });

  it("keeps those of every so many steps, and the best one", async () => {
    const folder = temporaryFolder();
    for (const step of [5, 10, 15, 20, 25]) {
      await saveCheckpoint(folder, someState(), progress(step), { last: 1, period: 10, best: 5 });
    }
    expect(names(folder)).toEqual([5, 10, 20, 25].map((step) => `step-000000${String(step).padStart(2, "0")}`));
  });

  it.each([
    [
      "cut off",
      (path: string) =>
        writeFileSync(
          join(path, "params.safetensors"),
          readFileSync(join(path, "params.safetensors")).subarray(0, 5000),
        ),
      /params\.safetensors has 5000 bytes instead of/,
    ],
    [
      "a flipped bit",
      (path: string) => {
        const file = join(path, "optimizer.safetensors");
        const bytes = readFileSync(file);
        bytes[bytes.length - 9]! ^= 1;
        writeFileSync(file, bytes);
      },
      /optimizer\.safetensors has changed since it was written/,
    ],
    ["a missing file", (path: string) => rmSync(join(path, "state.json")), /state\.json is missing/],
    ["no manifest", (path: string) => rmSync(join(path, "manifest.json")), /it has no manifest\.json/],
    [
      "half a manifest",
      (path: string) => writeFileSync(join(path, "manifest.json"), '{"format": 1, "fil'),
      /manifest\.json is damaged/,
    ],
    [
      "another manifest",
      (path: string) => writeFileSync(join(path, "manifest.json"), '{"format": 2}'),
      /manifest\.json is damaged/,
    ],
    [
      "nothing in it",
      (path: string) => {
        rmSync(path, { recursive: true });
        mkdirSync(path);
      },
      /it has no manifest\.json/,
    ],
    [
      "another step's in its place",
      (path: string) => {
        rmSync(path, { recursive: true });
        cpSync(path.replace(/6$/, "5"), path, { recursive: true });
      },
      /^6: state\.json is of step 5: the folder is a copy of that step's, or was renamed$/,
    ],
    ["a manifest of no files", (path: string) => relist(path, () => ({})), /manifest\.json does not list params\.safe/],
    [
      "a manifest that lacks the moments",
      (path: string) => relist(path, ({ "optimizer.safetensors": _, ...files }) => files),
      /manifest\.json does not list optimizer\.safetensors$/,
    ],
    [
      "a manifest that lacks what is known beside the arrays",
      (path: string) => relist(path, ({ "state.json": _, ...files }) => files),
      /manifest\.json does not list state\.json$/,
    ],
    [
      "a manifest of half the processes",
      (path: string) =>
        relist(path, ({ "params.safetensors": record, ...files }) => ({
          ...files,
          "params-00001-of-00002.safetensors": record,
        })),
      /manifest\.json is damaged: of its files params-00002-of-00002\.safetensors is missing$/,
    ],
    [
      "a second file of weights",
      (path: string) => writeFileSync(join(path, "params-00001-of-00001.safetensors"), ""),
      /manifest\.json does not list params-00001-of-00001\.safetensors$/,
    ],
    [
      "more bytes",
      (path: string) => appendFileSync(join(path, "state.json"), " "),
      /state\.json has \d+ bytes instead of/,
    ],
  ])("passes over a newest one with %s, and says so", async (_, damage, fault) => {
    const folder = temporaryFolder();
    await save(folder, 5);
    await save(folder, 6);
    damage(checkpointPath(folder, 6));
    const told: string[] = [];
    const newest = await newestCheckpoint(folder, ({ step }, why) => told.push(`${step}: ${why}`));
    expect(newest?.step).toBe(5);
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(fault);
    // Reached again, it is replaced.
    await save(folder, 6);
    expect((await newestCheckpoint(folder, () => {}))?.step).toBe(6);
    expect(names(folder)).toEqual(["step-00000005", "step-00000006"]);
  });

  it("neither counts damaged ones among those it keeps nor deletes them", async () => {
    const folder = temporaryFolder();
    for (const step of [1, 2, 3]) await save(folder, step);
    for (const step of [2, 3]) rmSync(join(checkpointPath(folder, step), "params.safetensors"));
    await save(folder, 4, 2);
    expect(names(folder)).toEqual(["step-00000001", "step-00000002", "step-00000003", "step-00000004"]);
    await save(folder, 5, 2);
    expect(names(folder)).toEqual(["step-00000002", "step-00000003", "step-00000004", "step-00000005"]);
  });

  it("passes over what is no file where there should be one, and takes no file for a checkpoint", async () => {
    const folder = temporaryFolder({ "step-00000099": "a file" });
    for (const step of [1, 2, 3, 4]) await save(folder, step);
    const replace = (step: number, name: string, by: (path: string) => void) => {
      const path = join(checkpointPath(folder, step), name);
      rmSync(path);
      by(path);
    };
    replace(2, "manifest.json", mkdirSync);
    replace(3, "state.json", mkdirSync);
    replace(4, "params.safetensors", (path) => spawnSync("mkfifo", [path]));
    const told: string[] = [];
    const newest = await newestCheckpoint(folder, ({ step }, why) => told.push(`${step}: ${why}`));
    expect(newest?.step).toBe(1);
    expect(told).toEqual([
      "4: params.safetensors is no file",
      "3: state.json is a folder",
      "2: manifest.json is a folder",
    ]);
    await save(folder, 5, 1);
    expect(listCheckpoints(folder).map(({ step }) => step)).toEqual([2, 3, 4, 5]);
  });

  it("finds one behind a link", async () => {
    const folder = temporaryFolder();
    const { path } = await save(temporaryFolder(), 1);
    symlinkSync(path, checkpointPath(folder, 1));
    expect((await newestCheckpoint(folder, () => {}))?.step).toBe(1);
  });

  it("decides nothing about one that the system can't read, and says how to go on without it", async () => {
    const folder = temporaryFolder();
    for (const step of [3, 4]) await save(folder, step);
    // The system refuses to read it, with EIO.
    const unreadable = (step: number, name: string) => {
      const path = join(checkpointPath(folder, step), name);
      rmSync(path);
      symlinkSync("/proc/self/mem", path);
    };
    unreadable(4, "manifest.json");
    const newest = () => newestCheckpoint(folder, () => {});
    await expect(newest()).rejects.toThrow(
      /step-00000004\/manifest\.json can't be read \([^)]+\)+: it may be whole, so nothing is done; make it readable, or move \S+step-00000004 away to go on from step 3$/,
    );
    // Nor does it keep another one from being saved, or go then.
    await save(folder, 5, 1);
    expect(listCheckpoints(folder).map(({ step }) => step)).toEqual([4, 5]);
    expect((await newest())?.step).toBe(5);
    unreadable(5, "state.json");
    const manifest = join(checkpointPath(folder, 5), "manifest.json");
    const { files } = JSON.parse(readFileSync(manifest, "utf8"));
    writeFileSync(manifest, JSON.stringify({ format: 1, files: { ...files, "state.json": { bytes: 0, sha256: "" } } }));
    await expect(newest()).rejects.toThrow(
      /state\.json can't be read .*; make it readable; no older checkpoint is whole$/,
    );
    // With another file missing it certainly is not whole.
    rmSync(join(checkpointPath(folder, 5), "params.safetensors"));
    rmSync(checkpointPath(folder, 4), { recursive: true });
    expect(await newest()).toBe(undefined);
  });

  it("gives none where none is whole", async () => {
    const folder = temporaryFolder();
    expect(await newestCheckpoint(join(folder, "none"), () => {})).toBeUndefined();
    mkdirSync(checkpointPath(folder, 3));
    expect(await newestCheckpoint(folder, () => {})).toBeUndefined();
  });

  it("loses what killed processes left, and nothing of living ones", async () => {
    const deadPid = 2 ** 22 + 1; // above Linux's largest
    const folder = temporaryFolder();
    const leftovers = [
      `.step-00000001.tmp-${deadPid}`,
      `.step-00000002.old-${deadPid}`,
      `.step-00000003.tmp-${process.ppid}`,
    ];
    for (const name of leftovers) mkdirSync(join(folder, name));
    await save(folder, 4);
    expect(names(folder)).toEqual([leftovers[2], "step-00000004"]);
  });

  it("is what it was before, wherever the writing of another one broke off", async () => {
    const deadPid = 2 ** 22 + 1;
    const folder = temporaryFolder();
    await save(folder, 5);
    const { path } = await save(temporaryFolder(), 6);
    // In the order in which they are written.
    const files = ["params.safetensors", "optimizer.safetensors", "state.json", "manifest.json"].map(
      (name) => [name, readFileSync(join(path, name))] as const,
    );
    const total = files.reduce((sum, [, bytes]) => sum + bytes.length, 0);
    const unfinished = join(folder, `.step-00000006.tmp-${deadPid}`);
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.nat(total), fc.integer({ min: total - 1200, max: total })), async (written) => {
        mkdirSync(unfinished);
        let left = written;
        for (const [name, bytes] of files) {
          if (left > 0) writeFileSync(join(unfinished, name), bytes.subarray(0, left));
          left -= bytes.length;
        }
        expect(unfinishedFolders(folder)).toEqual([checkpointPath(folder, 6)]);
        expect(await newestCheckpoint(folder, () => {})).toEqual({ step: 5, path: checkpointPath(folder, 5) });
        // Under its name, where it would be if the renaming came too early, it is whole or passed over.
        const early = checkpointPath(folder, 6);
        renameSync(unfinished, early);
        const damaged: string[] = [];
        const newest = await newestCheckpoint(folder, (_, fault) => damaged.push(fault));
        // The last byte is a line end, which the manifest can do without.
        expect([newest!.step, damaged.length]).toEqual(written >= total - 1 ? [6, 0] : [5, 1]);
        rmSync(early, { recursive: true });
      }),
      { numRuns: 40, examples: [[0], [total], [total - 1], [total - 2]] },
    );
  });

  it("says in one sentence that it can't be written", async () => {
    const folder = temporaryFolder({ taken: "a file" });
    await expect(save(join(folder, "taken"), 1)).rejects.toThrow(/^[^\n]*step-00000001: can't be written \([^\n]+\)$/);
    expect(existsSync(join(folder, "taken"))).toBe(true);
  });
});
