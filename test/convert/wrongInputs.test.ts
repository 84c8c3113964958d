/** What people give for a model by mistake: one message each that says what it is and what to give, before anything is written. */
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { convertModel, loadParameters, openSource } from "../../src/convert/index.ts";
import { hostArray } from "../../src/core/index.ts";
import { goldenPath } from "../golden.ts";
import { tinyModel } from "../train/tinyRun.ts";
import { ggufOf, llamaA, llamaB, splitGgufOf, variant } from "./models.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-inputs-"));
afterAll(() => rmSync(scratch, { recursive: true }));
let made = 0;
const fresh = () => join(scratch, `${made++}`);
const whatToGive = "Give a Hugging Face folder, a GGUF file, a run's folder or one of its checkpoints";

function folderOf(files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = fresh();
  mkdirSync(folder);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return folder;
}

const pickle = "holds PyTorch's pickle, which can run any program and is not read: load the model in transformers";
const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
const lfs = "it is a pointer of Git LFS in place of the file, which `git lfs pull` fetches";
const cases: Readonly<Record<string, () => Promise<readonly [path: string, message: string]>>> = {
  "no file": async () => ["/nowhere", `there is no such file or folder. ${whatToGive}`],
  "an empty folder": async () => [folderOf({}), `it has no config.json. ${whatToGive}`],
  "weights without config.json": async () => {
    const folder = await variant(fresh(), llamaB);
    rmSync(join(folder, "config.json"));
    return [folder, "it has weights and no config.json, which says what model they are of"];
  },
  "a file of weights in its folder": async () => {
    const folder = await variant(fresh(), llamaB);
    return [join(folder, "model.safetensors"), `this is a file of weights: give the folder it is in, ${folder}`];
  },
  "a file of weights alone": async () => {
    const folder = folderOf({});
    const file = join(folder, "weights.safetensors");
    cpSync(join(goldenPath(`06_models/${llamaB}`), "model.safetensors"), file);
    return [file, `this is a file of weights, and ${folder} has no config.json that says what model they are of`];
  },
  "config.json itself": async () => {
    const folder = await variant(fresh(), llamaB);
    return [join(folder, "config.json"), `give the folder it is in, ${folder}`];
  },
  "a LoRA adapter": async () => {
    const config = JSON.stringify({ peft_type: "LORA", base_model_name_or_path: "org/base-1B" });
    const folder = folderOf({ "adapter_config.json": config });
    await writeSafetensors(join(folder, "adapter_model.safetensors"), [
      ["base_model.model.q_proj.lora_A.weight", hostArray([1], "float32", Float32Array.of(1))],
    ]);
    return [folder, "it is an adapter (LoRA), which changes another model (org/base-1B): merge the two with peft"];
  },
  "a pickle in a zip archive": async () => [
    join(folderOf({ "model.pth": "PK\u0003\u0004\u0000" }), "model.pth"),
    `model.pth ${pickle}`,
  ],
  "a bare pickle under any name": async () => [
    join(folderOf({ weights: Uint8Array.of(0x80, 2, 0x7d) }), "weights"),
    `weights ${pickle}`,
  ],
  "a folder of pickles without config.json": async () => [
    folderOf({ "consolidated.00.pth": "PK", "params.json": "{}" }),
    `it has no config.json, and consolidated.00.pth ${pickle}`,
  ],
  "a folder of pickles": async () => [
    folderOf({
      "config.json": JSON.stringify({ model_type: "llama", ...sizes }),
      "pytorch_model.bin": "PK",
    }),
    "no such file as model.safetensors or model.safetensors.index.json; its weights are in pytorch_model.bin",
  ],
  "a folder of GGUF files": async () => {
    const folder = folderOf({});
    const [first] = await splitGgufOf(join(folder, "b"), llamaB, 2);
    return [folder, `give the file in it, ${first}`];
  },
  "another architecture": async () => [
    await variant(fresh(), llamaB, { config: (config) => ({ ...config, model_type: "qwen3" }) }),
    '"qwen3" is not read',
  ],
  "no architecture at all": async () => [
    await variant(fresh(), llamaB, { config: ({ model_type: _, ...config }) => config }),
    "config.json: model_type is missing",
  ],
  "a file of anything": async () => [
    join(folderOf({ "notes.txt": "hello" }), "notes.txt"),
    `it does not begin with "GGUF", so it is no GGUF file. ${whatToGive}`,
  ],
  "a GGUF file that is none": async () => [
    join(folderOf({ "model.gguf": "<html>" }), "model.gguf"),
    'it does not begin with "GGUF": this is no GGUF file',
  ],
  "a pointer in place of a GGUF file": async () => [join(folderOf({ "m.gguf": pointer }), "m.gguf"), lfs],
  "a pointer in place of weights": async () => {
    const folder = await variant(fresh(), llamaA);
    writeFileSync(join(folder, "model.safetensors"), pointer);
    return [folder, lfs];
  },
};
const sizes = { hidden_size: 32, intermediate_size: 48, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 64 };

it.each(Object.keys(cases))("%s", async (name) => {
  const [path, message] = await cases[name]!();
  const output = fresh();
  for (const read of [() => convertModel(path, output), () => loadParameters(path, tinyModel)]) {
    const error = (await read().catch((error: unknown) => error)) as Error & { exitCode?: number };
    expect(error.message).toContain(message);
    expect(error.message.split("\n")).toHaveLength(1);
    expect(error.message).toContain(path);
  }
});

it("reads a GGUF file under any name, as a store of blobs keeps it", async () => {
  const file = await ggufOf(`${fresh()}.gguf`, llamaB);
  const blob = join(folderOf({}), "sha256-0f00");
  renameSync(file, blob);
  const source = await openSource(blob);
  expect(source).toMatchObject({ kind: "gguf", tokenizerPath: blob });
  await source.close();
});
