/** `load_parameters_path` and `load_full_state_path` as processes: weights of another run, a Hugging Face folder or a GGUF file; a whole state. */
import { createHash } from "node:crypto";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkpointPath, weightFormats } from "../../src/checkpoint/index.ts";
import { prepareRun } from "../../src/cli/trainingRun.ts";
import { resolve } from "../../src/config/index.ts";
import { quantizeModel } from "../../src/convert/onDemand.ts";
import { toHfConfig } from "../../src/models/hfConfig.ts";
import { ggufOf, llamaB, splitGgufOf } from "../convert/models.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { goldenPath } from "../golden.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { eventsOf, ofType, stateHashes } from "./runFiles.ts";
import { tinyKeys, tinyModel } from "./tinyRun.ts";

let base = "";
let first = "";
beforeAll(async () => {
  await ensureBuilt();
  base = mkdtempSync(join(tmpdir(), "halfbyte-parameters-"));
  first = join(base, "first");
  const { exitCode, stderr } = await train(["run_name=first", "steps=12", "checkpoint_period=6"]);
  expect(exitCode, stderr).toBe(0);
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

const train = (keys: readonly string[]) =>
  halfbyte(["train", ...tinyKeys, `base_output_directory=${base}`, "lr_schedule_type=constant", ...keys]);
const stateOf = (run: string, step: number) =>
  JSON.parse(readFileSync(join(checkpointPath(join(base, run, "checkpoints"), step), "state.json"), "utf8"));
const firstLoss = (run: string) => ofType(eventsOf(join(base, run)), "step")[0]!.loss;

/** @param message what a command that wrote nothing says */
async function refused(keys: readonly string[], message: RegExp) {
  const { exitCode, stderr } = await train(["run_name=refused", "steps=1", ...keys]);
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(message);
  expect(existsSync(join(base, "refused"))).toBe(false);
}

/** What is said before a run begins, of keys over the tiny run's. */
async function saidBefore(keys: readonly string[]): Promise<string[]> {
  const pairs = [...tinyKeys, `base_output_directory=${base}`, "lr_schedule_type=constant", ...keys];
  const settings = Object.fromEntries(pairs.map((pair) => pair.split(/=(.*)/s)));
  const said: string[] = [];
  const { data } = await prepareRun(resolve({}, settings), (text) => said.push(text));
  data.close?.();
  return said;
}

describe("load_parameters_path", () => {
  it("begins with the weights of a run's newest checkpoint, at step 1, and says so; later starts go on", async () => {
    const keys = ["run_name=second", `load_parameters_path=${first}`];
    const { exitCode, stdout, stderr } = await train([...keys, "steps=2"]);
    expect(exitCode, stderr).toBe(0);
    const from = checkpointPath(join(first, "checkpoints"), 12);
    expect(stdout).toContain(`weights from ${from}; the optimizer begins anew`);
    expect(stdout).toMatch(/^completed step: 1,/m);
    expect(firstLoss("second")).toBeLessThan(firstLoss("first") - 0.3);
    expect(stateOf("second", 2)).toMatchObject({ step: 2, provenance: { parametersFrom: from } });

    const again = await train([...keys, "steps=3"]);
    expect(again.stdout).toContain(`load_parameters_path=${first} is where the run began; it goes on with its own`);
    expect(again.stdout).toMatch(/^completed step: 3,/m);
    expect(stateOf("second", 3).provenance.parametersFrom).toBe(from);
  });

  it("takes one step's folder, and a Hugging Face folder, to the same bits", async () => {
    const step = checkpointPath(join(first, "checkpoints"), 6);
    const folder = join(base, "hf");
    mkdirSync(folder);
    copyFileSync(join(step, "params.safetensors"), join(folder, "model.safetensors"));
    const options = { style: "transformers5", storedDtype: "float32" } as const;
    const model = { ...tinyModel, tieEmbeddings: false };
    const config = toHfConfig({ family: "llama", config: model, maxPositions: 32, eosTokenIds: [] }, options);
    writeFileSync(join(folder, "config.json"), JSON.stringify(config));
    for (const [name, path] of [
      ["step", step],
      ["hf", folder],
    ] as const) {
      const { exitCode, stderr } = await train([`run_name=from-${name}`, `load_parameters_path=${path}`, "steps=1"]);
      expect(exitCode, stderr).toBe(0);
    }
    expect(firstLoss("from-hf")).toBe(firstLoss("from-step"));
    expect(firstLoss("from-hf")).not.toBe(firstLoss("second"));
  });

  it("says which newer checkpoints it passed over, and why, and how a run has none that is whole", async () => {
    const run = join(base, "damaged");
    cpSync(first, run, { recursive: true });
    const checkpoints = join(run, "checkpoints");
    rmSync(join(checkpointPath(checkpoints, 12), "state.json"));
    for (const key of ["load_parameters_path", "load_full_state_path"]) {
      const keys = [`run_name=after-${key}`, "steps=7", `${key}=${run}`];
      const { exitCode, stdout } = await train(keys);
      expect([exitCode, stdout]).toEqual([
        0,
        expect.stringMatching(
          /step-00000012 is not used: state\.json is missing\n(weights|state) from \S+step-00000006/,
        ),
      ]);
    }
    rmSync(join(checkpointPath(checkpoints, 6), "manifest.json"));
    await refused(
      [`load_parameters_path=${run}`],
      /the run has no whole checkpoint; \S+12 is not used: state\.json is missing; \S+06 is not used: it has no manifest\.json\n$/,
    );
  });

  it("takes a GGUF file, whole or in parts, and a quantized folder, and says that these are decoded", async () => {
    const sizes = [
      ...["dataset_type=synthetic", "vocab_size=256", "emb_dim=48", "mlp_dim=128", "num_decoder_layers=2"],
      ...["num_query_heads=6", "num_kv_heads=2", "head_dim=8", "logits_via_embedding=true", "rope_theta=500000"],
      ...["max_target_length=32", "per_device_batch_size=2", "steps=1", `base_output_directory=${base}`],
    ];
    const begin = (name: string, path: string, keys = sizes) =>
      halfbyte(["train", ...keys, `run_name=${name}`, `load_parameters_path=${path}`]);
    const golden = goldenPath(`06_models/${llamaB}`);
    const quantized = join(base, "quantized");
    const weights = join(golden, "model.safetensors");
    await quantizeModel(golden, quantized, { format: weightFormats.fp8_dynamic });
    const file = await ggufOf(join(base, "b.gguf"), llamaB);
    const [, part] = await splitGgufOf(join(base, "split"), llamaB, 2);
    const said: Record<string, string> = {};
    for (const [name, path] of Object.entries({ golden, file, part: part!, quantized })) {
      const { exitCode, stdout, stderr } = await begin(`b-${name}`, path);
      expect(exitCode, stderr).toBe(0);
      said[name] = stdout;
    }
    expect(said.file).toContain(`weights from ${file}; the optimizer begins anew`);
    expect(said.part).toContain(`weights from ${join(base, "split-00001-of-00002.gguf")}; the optimizer begins anew`);
    expect(said.quantized).toContain("its weights are quantized; training goes on from what they decode to");
    expect([firstLoss("b-file"), firstLoss("b-part")]).toEqual([firstLoss("b-golden"), firstLoss("b-golden")]);
    const apart = Math.abs(firstLoss("b-quantized") - firstLoss("b-golden"));
    expect(apart).toBeGreaterThan(0);
    expect(apart).toBeLessThan(0.1);

    const other = sizes.filter((key) => !/^(vocab_size|mlp_dim)=/.test(key));
    const { exitCode, stderr } = await begin("b-other", file, [...other, "vocab_size=300", "mlp_dim=64"]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(
      `the weights have vocab_size=256, mlp_dim=128, the run vocab_size=300, mlp_dim=64: set vocab_size=256 mlp_dim=128; their tokenizer is tokenizer_path=${file}\n`,
    );
    const state = await halfbyte(["train", ...sizes, "run_name=b-state", `load_full_state_path=${file}`]);
    expect(state.stderr).toContain("a file of a model has weights, but no optimizer and no count of steps");
    const single = await halfbyte(["train", ...sizes, "run_name=b-single", `load_parameters_path=${weights}`]);
    expect(single.stderr).toContain(`this is a file of weights: give the folder it is in, ${golden}\n`);
  });

  it("refuses weights of another model with the key to set, and what holds none, before anything is written", async () => {
    const path = `load_parameters_path=${first}`;
    await refused(
      [path, "norm_eps=1e-6"],
      /the weights have norm_eps=0.00001, the run norm_eps=0.000001: set norm_eps=0.00001\n/,
    );
    const sizes = tinyKeys.filter((key) => !/^(mlp_dim|num_kv_heads)=/.test(key));
    const other = await halfbyte([
      ...["train", ...sizes, "mlp_dim=64", "num_kv_heads=2", path, `base_output_directory=${base}`],
      ...["lr_schedule_type=constant", "run_name=refused", "steps=1"],
    ]);
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toContain(
      "the weights have mlp_dim=48, num_kv_heads=1, the run mlp_dim=64, num_kv_heads=2: set mlp_dim=48 num_kv_heads=1\n",
    );
    const step = checkpointPath(join(first, "checkpoints"), 6);
    await refused(
      [`load_parameters_path=${join(first, "checkpoints")}`],
      /: these are a run's checkpoints: give the run's folder, .*\/first, or one step's folder in it\n$/,
    );
    await refused(
      [`load_parameters_path=${join(step, "params.safetensors")}`],
      /: this is a file of weights: give the folder it is in, .*step-00000006\n$/,
    );
    // The same shapes, other heads: the checkpoint says them wherever it lies.
    const outside = join(base, "outside", "step");
    cpSync(step, outside, { recursive: true });
    const otherHeads = ["num_query_heads=4", "num_kv_heads=2", "head_dim=8", "steps=7"];
    const heads = /the weights have num_query_heads=2, num_kv_heads=1, head_dim=16, .*: set num_query_heads=2 num_kv/;
    for (const key of ["load_parameters_path", "load_full_state_path"])
      await expect(saidBefore([...otherHeads, `${key}=${outside}`])).rejects.toThrow(heads);
    // An earlier checkpoint says less.
    const { provenance, ...state } = JSON.parse(readFileSync(join(outside, "state.json"), "utf8"));
    expect(provenance.model).toMatchObject({ emb_dim: 32, num_query_heads: 2, rope_type: "default", norm_eps: 1e-5 });
    const bytes = Buffer.from(JSON.stringify({ ...state, provenance: { ...provenance, model: undefined } }));
    writeFileSync(join(outside, "state.json"), bytes);
    const manifest = JSON.parse(readFileSync(join(outside, "manifest.json"), "utf8"));
    manifest.files["state.json"] = {
      bytes: bytes.length,
      sha256: createHash("sha256").update(bytes).digest("hex"),
    };
    writeFileSync(join(outside, "manifest.json"), JSON.stringify(manifest));
    const unsaid = /^nothing says what model \S+outside\/step is of: .*norm_eps are the run's own, unchecked$/;
    for (const key of ["load_parameters_path", "load_full_state_path"])
      expect(await saidBefore([...otherHeads, `${key}=${outside}`])).toContainEqual(expect.stringMatching(unsaid));
    await refused([path, "logits_via_embedding=true"], /: set logits_via_embedding=false\n$/);
    await refused(
      ["load_parameters_path=/nowhere"],
      /load_parameters_path=\/nowhere: there is no such file or folder. Give a Hugging Face/,
    );
    await refused([path, "init_weights_seed=3"], /init_weights_seed=3 has no effect: load_parameters_path gives the/);
  });
});

describe("load_full_state_path", () => {
  it("goes on where another run stands: under the same settings to the same bits", async () => {
    const step = checkpointPath(join(first, "checkpoints"), 6);
    const keys = ["run_name=full", `load_full_state_path=${step}`];
    const { exitCode, stdout, stderr } = await train([...keys, "steps=12"]);
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toContain(`state from ${step}: the run begins with step 7, under its own settings`);
    expect(stateHashes(join(base, "full"), 12)).toEqual(stateHashes(first, 12));
    const events = eventsOf(join(base, "full"));
    expect(ofType(events, "start")).toMatchObject([{ step: 6 }]);
    expect(ofType(events, "step").map((event) => event.step)).toEqual([7, 8, 9, 10, 11, 12]);
    const said = { step: 12, stepsByPrecision: { bf16: 12 }, provenance: { fullStateFrom: step } };
    expect(stateOf("full", 12)).toMatchObject(said);

    const again = await train([...keys, "steps=13"]);
    expect(again.stdout).toContain(`load_full_state_path=${step} is where the run began; it goes on with its own`);
    expect(stateOf("full", 13).provenance.fullStateFrom).toBe(step);
  });

  it("takes a state with another padding of the vocabulary, wider or narrower", async () => {
    const keys = ["run_name=padded", `load_full_state_path=${checkpointPath(join(first, "checkpoints"), 6)}`];
    const wider = await train([...keys, "steps=8", "make_vocab_size_divisible_by=48"]);
    expect(wider.exitCode, wider.stderr).toBe(0);
    const wanted = ofType(eventsOf(first), "step")[6]!.loss;
    expect(Math.abs(firstLoss("padded") - wanted)).toBeLessThan(1e-5 * wanted);
    const back = [`load_full_state_path=${join(base, "padded")}`, "run_name=narrow", "steps=9"];
    const narrower = await train(back);
    expect(narrower.exitCode, narrower.stderr).toBe(0);
    const weights = (run: string, step: number) =>
      statSync(join(checkpointPath(join(base, run, "checkpoints"), step), "params.safetensors")).size;
    expect(weights("narrow", 9)).toBeLessThan(weights("padded", 8));
  });

  it("says where text has another tokenizer than the weights were trained with, and else nothing", async () => {
    const text = join(base, "text.txt");
    writeFileSync(text, "Some words, and then some more words of it. ".repeat(40));
    const keys = ["dataset_type=text", `dataset_path=${text}`, "vocab_size=512", "lr_schedule_type=constant"];
    const bytes = [...keys, "tokenizer_path=byte"];
    const own = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
    const trained = await halfbyte([
      ...["train", ...own, ...bytes, `base_output_directory=${base}`, "run_name=bytes", "steps=1"],
    ]);
    expect(trained.exitCode, trained.stderr).toBe(0);
    const other = await ggufOf(join(base, "tokenizer.gguf"), llamaB);
    const notice = `note: tokenizer_path=${other} is not the tokenizer that these weights were trained with (hash `;
    for (const key of ["load_parameters_path", "load_full_state_path"]) {
      const from = [`${key}=${join(base, "bytes")}`, "steps=2"];
      const said = await saidBefore([...keys, `tokenizer_path=${other}`, ...from]);
      expect(said).toContainEqual(expect.stringContaining(notice));
      expect((await saidBefore([...bytes, ...from])).join()).not.toContain("is not the tokenizer");
    }
  });

  it("lets any setting but the model's sizes be another; a loss scale that was not there begins anew", async () => {
    const keys = [
      "run_name=other",
      `load_full_state_path=${first}`,
      "steps=14",
      "dtype=float16",
      "data_shuffle_seed=5",
    ];
    const { exitCode, stdout, stderr } = await train(keys);
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toMatch(/^completed step: 13,/m);
    expect(ofType(eventsOf(join(base, "other")), "step")[0]).toMatchObject({ step: 13, lossScale: 65536 });
    expect(firstLoss("other")).toBeLessThan(firstLoss("first") - 0.3);
    expect(stateOf("other", 14)).toMatchObject({ stepsByPrecision: { bf16: 12, float16: 2 } });
  });

  it("refuses what has no state, steps that are done, and weights beside it", async () => {
    const path = `load_full_state_path=${first}`;
    await refused([path], /first: 12 steps are done there, and steps=1 counts those too: raise steps\n$/);
    await refused([path, "norm_eps=1e-6"], /^[^\n]*load_full_state_path=[^\n]*: set norm_eps=0.00001\n/);
    await refused([path, `load_parameters_path=${first}`], /with weights alone, load_full_state_path with .* set one/);
    await refused([path, "init_weights_seed=3"], /init_weights_seed=3 has no effect: load_full_state_path gives the/);
    const weights = temporaryFolder({ "config.json": "{}" });
    await refused(
      [`load_full_state_path=${weights}`],
      /a Hugging Face folder has weights, but no optimizer .* load_parameters_path begins with weights alone\n$/,
    );
    await refused(["load_full_state_path=/nowhere"], /load_full_state_path=\/nowhere: there is no such folder. Give/);
  });
});
