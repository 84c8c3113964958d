/** docs/checkpoints.md against checkpoints: they are read by what the page says, without Halfbyte's own readers. */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { saveCheckpoint, writeSafetensors } from "../../src/checkpoint/index.ts";
import { pieceName, piecesToWrite, shardName } from "../../src/checkpoint/processShards.ts";
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { llamaToHf } from "../../src/models/hfMapping.ts";
import { mesh, partition, type Sharding, splitArray } from "../../src/sharding/index.ts";
import { initialState } from "../../src/train/state.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { tinyModel } from "../train/tinyRun.ts";

const page = readFileSync(new URL("../../docs/checkpoints.md", import.meta.url), "utf8");
const hashOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const bytesOf = ({ data }: HostArray) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

const withLossScale = {
  lossScale: { initial: 1024, minimum: 1, growthFactor: 2, growthInterval: 10, backoffFactor: 0.5 },
};
const state = initialState(tinyModel, 3, withLossScale);

async function saved(): Promise<string> {
  const { path } = await saveCheckpoint(temporaryFolder(), state, {
    ...{ step: 7, skippedInARow: 0, skippedSteps: 0, overflowSteps: 0 },
    ...{ data: {}, provenance: { recipe: "bf16" } },
  });
  return path;
}

/** What the page says is in the two files, with the values that are in the state. */
function expected(stem: "params" | "optimizer"): Map<string, HostArray> {
  const params = llamaToHf(state.params);
  if (stem === "params") return new Map(params);
  const { mu, nu, count } = state.optimizer;
  return new Map<string, HostArray>([
    ["count", count],
    ["loss_scale", state.lossScale!.scale],
    ["loss_scale_good_steps", state.lossScale!.goodSteps],
    ...llamaToHf(mu).map(([name, array]) => [`mu.${name}`, array] as const),
    ...llamaToHf(nu).map(([name, array]) => [`nu.${name}`, array] as const),
  ]);
}

/** A safetensors file by its format alone: eight bytes of length, JSON, values. */
function tensorsOf(path: string): Map<string, { dtype: string; shape: number[]; bytes: Uint8Array }> {
  const file = readFileSync(path);
  const end = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__: _, ...header } = JSON.parse(file.toString("utf8", 8, end));
  return new Map(
    Object.entries(header as Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>).map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [from, to],
        },
      ]) => [name, { dtype, shape, bytes: file.subarray(end + from, end + to) }],
    ),
  );
}

describe("docs/checkpoints.md", () => {
  it("tells all files of a checkpoint, their hashes, and every tensor with its dtype and shape", async () => {
    const folder = await saved();
    const { format, files } = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));
    expect(format).toBe(1);
    expect([...Object.keys(files), "manifest.json"].sort()).toEqual(readdirSync(folder).sort());
    for (const [name, { bytes, sha256 }] of Object.entries<{ bytes: number; sha256: string }>(files)) {
      const content = readFileSync(join(folder, name));
      expect([content.length, hashOf(content)]).toEqual([bytes, sha256]);
      expect(page).toContain(`**${name}**`);
    }
    for (const stem of ["params", "optimizer"] as const) {
      const tensors = tensorsOf(join(folder, `${stem}.safetensors`));
      const wanted = expected(stem);
      expect([...tensors.keys()].sort()).toEqual([...wanted.keys()].sort());
      for (const [name, { dtype, shape, bytes }] of tensors) {
        const array = wanted.get(name)!;
        expect([dtype, shape]).toEqual([array.dtype === "float32" ? "F32" : "I32", array.shape]);
        expect(hashOf(bytes), name).toBe(hashOf(bytesOf(array)));
      }
    }
    expect(JSON.parse(readFileSync(join(folder, "state.json"), "utf8"))).toMatchObject({ step: 7, skippedSteps: 0 });
  });

  const hasPython = spawnSync("python3", ["-c", "import numpy, safetensors"]).status === 0;
  // Python's packages are no part of the set-up: without numpy and safetensors there this one is skipped.
  it.runIf(hasPython)("has Python that reads the files of one process and of several", async () => {
    const folder = await saved();
    const [code] = /(?<=^```python\n)[\s\S]*?(?=^```)/m.exec(page)!;
    const spread: Sharding = { mesh: mesh({ a: 2, b: 2 }), partition: partition("a", "b") };
    const matrix = hostArray(
      [4, 6],
      "float32",
      Float32Array.from({ length: 24 }, (_, i) => i),
    );
    for (let index = 0; index < 4; index++) {
      const writer = { index, count: 4 };
      const pieces = piecesToWrite(matrix, spread, writer, 0).map((piece): [string, HostArray] => [
        pieceName("x", piece),
        splitArray(matrix, spread)[piece.device!]!,
      ]);
      const norm = piecesToWrite(state.params.norm, undefined, writer, 1).map((): [string, HostArray] => [
        "norm",
        state.params.norm,
      ]);
      await writeSafetensors(join(folder, shardName("params", writer).replace("params", "several")), [
        ...pieces,
        ...norm,
      ]);
    }
    const script = join(folder, "read.py");
    writeFileSync(
      script,
      `${code}
import hashlib, json, sys
print(json.dumps({stem: {name: [list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
    for name, array in read(sys.argv[1], stem).items()} for stem in ["params", "optimizer", "several"]}))
`,
    );
    const read = JSON.parse(execFileSync("python3", [script, folder], { encoding: "utf8" }));
    const hashes = (arrays: Iterable<readonly [string, HostArray]>) =>
      Object.fromEntries([...arrays].map(([name, array]) => [name, [[...array.shape], hashOf(bytesOf(array))]]));
    expect(read.params).toEqual(hashes(expected("params")));
    expect(read.optimizer).toEqual(hashes(expected("optimizer")));
    expect(read.several).toEqual(hashes([["x", matrix] as const, ["norm", state.params.norm] as const]));
  });
});
