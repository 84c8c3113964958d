import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { loadHfLlama } from "../../src/checkpoint/hfLlama.ts";
import { openSafetensors, writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { type HostArray, hostArray, treePaths } from "../../src/core/index.ts";
import { hfName, hfNames, llamaToHf, pathOfHfName } from "../../src/models/hfMapping.ts";
import { golden, goldenPath } from "../golden.ts";
import { llamaNames } from "./goldenLlama.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A copy of the small golden checkpoint with its tensors changed. */
async function variant(change: (tensors: Map<string, HostArray>) => void): Promise<string> {
  const source = goldenPath("06_models/llama_b_tied_plainrope");
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-hf-"));
  folders.push(folder);
  cpSync(join(source, "config.json"), join(folder, "config.json"));
  const file = await openSafetensors(join(source, "model.safetensors"));
  const tensors = new Map<string, HostArray>();
  for (const name of file.tensors.keys()) tensors.set(name, await file.read(name));
  await file.close();
  change(tensors);
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
  return folder;
}

describe("names", () => {
  it("go both ways", () => {
    expect(hfName("layers.12.mlpNorm")).toBe("model.layers.12.post_attention_layernorm.weight");
    expect(hfName("layers.0.q")).toBe("model.layers.0.self_attn.q_proj.weight");
    expect(hfName("head")).toBe("lm_head.weight");
    for (const path of ["embed", "norm", "head", "layers.3.attnNorm", "layers.3.down", "layers.10.gate"]) {
      expect(pathOfHfName(hfName(path)!)).toBe(path);
    }
    for (const path of ["layers.0.qq", "layers.x.q", "q", "toString", "layers.0.constructor", ""]) {
      expect(hfName(path)).toBeUndefined();
    }
    for (const name of ["model.layers.0.self_attn.q_proj.bias", "model.norm", "lm_head.bias", "toString.weight"]) {
      expect(pathOfHfName(name)).toBeUndefined();
    }
  });
});

describe("loadHfLlama", () => {
  it.each(llamaNames)("%s: every tensor in its place, as float32", async (name) => {
    const { params, config } = await loadHfLlama(goldenPath(`06_models/${name}`));
    const stored = await golden(`06_models/${name}/model`);
    const loaded = new Map(llamaToHf(params));
    expect([...loaded.keys()].sort()).toEqual([...stored.names].sort());
    for (const [tensor, array] of loaded) {
      expect([array.dtype, array.shape]).toEqual(["float32", stored.get(tensor).shape]);
      expect(array.data, tensor).toEqual(stored.values(tensor));
    }
    expect(treePaths(hfNames(config)).map(({ leaf }) => leaf)).toEqual([...loaded.keys()]);
    expect("head" in params).toBe(name.includes("untied"));
  });

  it("reads shards by their index", async () => {
    const folder = await variant(() => {});
    const whole = await loadHfLlama(folder);
    const entries = llamaToHf(whole.params);
    const half = Math.floor(entries.length / 2);
    const weightMap: Record<string, string> = {};
    for (const [i, part] of [entries.slice(0, half), entries.slice(half)].entries()) {
      const file = `model-0000${i + 1}-of-00002.safetensors`;
      await writeSafetensors(join(folder, file), part);
      for (const [name] of part) weightMap[name] = file;
    }
    rmSync(join(folder, "model.safetensors"));
    writeFileSync(
      join(folder, "model.safetensors.index.json"),
      JSON.stringify({ metadata: {}, weight_map: weightMap }),
    );
    expect((await loadHfLlama(folder)).params).toEqual(whole.params);
  });

  it("ignores a tied head stored again and rotary tables", async () => {
    const folder = await variant((tensors) => {
      tensors.set("lm_head.weight", tensors.get("model.embed_tokens.weight")!);
      tensors.set("model.layers.0.self_attn.rotary_emb.inv_freq", hostArray([4], "float32", new Float32Array(4)));
    });
    expect(await loadHfLlama(folder)).toEqual(await loadHfLlama(goldenPath("06_models/llama_b_tied_plainrope")));
  });

  it("refuses what the model would not compute as stored", async () => {
    const bias = "model.layers.0.self_attn.q_proj.bias";
    const withBias = await variant((tensors) => tensors.set(bias, hostArray([48], "float32", new Float32Array(48))));
    await expect(loadHfLlama(withBias)).rejects.toThrow(`"${bias}" is no tensor`);
    const missing = await variant((tensors) => tensors.delete("model.norm.weight"));
    await expect(loadHfLlama(missing)).rejects.toThrow(
      /"model.norm.weight" is missing \(the configuration needs \[48\]\)/,
    );
    const misshapen = await variant((tensors) =>
      tensors.set("model.norm.weight", hostArray([4], "float32", new Float32Array(4))),
    );
    await expect(loadHfLlama(misshapen)).rejects.toThrow(
      /"model.norm.weight" is float32\[4\]; the configuration needs \[48\]/,
    );
    const integers = await variant((tensors) =>
      tensors.set("model.norm.weight", hostArray([48], "int8", new Int8Array(48))),
    );
    await expect(loadHfLlama(integers)).rejects.toThrow(/weights must be floats/);
    await expect(loadHfLlama(join(integers, "nowhere"))).rejects.toThrow(/config.json: not readable/);
  });

  it("names the untied head that is missing", async () => {
    const folder = await variant(() => {});
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as Record<string, unknown>;
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, tie_word_embeddings: false }));
    await expect(loadHfLlama(folder)).rejects.toThrow(/"lm_head.weight" is missing/);
  });
});
