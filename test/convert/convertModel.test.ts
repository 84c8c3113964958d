/** Models converted: to the bit where nothing is rounded, true to what was asked where it is, refused by name where it can't be. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { weightFormats } from "../../src/checkpoint/compressedTensors.ts";
import { loadHfLlama } from "../../src/checkpoint/hfLlama.ts";
import { openSafetensors, writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { type ConvertModelOptions, convertModel, loadParameters, openSource } from "../../src/convert/index.ts";
import { quantizeModel } from "../../src/convert/quantizeModel.ts";
import { decodeArray, encodeArray } from "../../src/core/codecs.ts";
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { ropeFrequencies } from "../../src/nn/rope.ts";
import { goldenJson, goldenPath } from "../golden.ts";
import { configOf, ggufOf, llamaA, llamaB, splitGgufOf, tensorsOf, variant } from "./models.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-convert-"));
afterAll(() => rmSync(scratch, { recursive: true }));
let made = 0;
const fresh = () => join(scratch, `${made++}`);

async function convert(source: string, options: ConvertModelOptions = {}) {
  const output = fresh();
  return { output, ...(await convertModel(source, output, options)) };
}

/** The message that a conversion ends with; nothing may be left of it. */
async function refusal(source: string, options: ConvertModelOptions = {}): Promise<string> {
  const output = fresh();
  const error = await convertModel(source, output, options).catch((error: unknown) => error);
  expect(existsSync(output)).toBe(false);
  expect(readdirSync(scratch).filter((name) => name.includes(".tmp-"))).toEqual([]);
  return (error as Error).message;
}

const models = [llamaA, llamaB] as const;

const noTokenizer =
  "the source has no tokenizer, so that none was written: programs that read text need one in the folder";

describe("convertModel, Hugging Face to Hugging Face", () => {
  it.each(models)("%s comes back to the bit, through a checkpoint of Halfbyte too", async (name) => {
    const source = goldenPath(`06_models/${name}`);
    const wanted = await tensorsOf(source);
    const dtype = name === llamaA ? "bfloat16" : "float32";
    const there = await convert(source, { verify: true });
    expect(there).toMatchObject({ from: "huggingface", to: "huggingface", dtype, dropped: [] });
    expect(there.verification).toMatchObject({ tokens: 12, maxDifference: 0, sameBest: 12 });
    expect(await tensorsOf(there.output)).toEqual(wanted);
    expect(configOf(there.output)).toEqual(configOf(source));
    expect(readFileSync(join(there.output, "generation_config.json"))).toEqual(
      readFileSync(join(source, "generation_config.json")),
    );

    const ours = await convert(source, { to: "halfbyte", verify: true });
    expect(ours).toMatchObject({ to: "halfbyte", dtype: "float32", verification: { maxDifference: 0 } });
    const back = await convert(ours.output, { dtype });
    expect(back.from).toBe("halfbyte");
    expect(await tensorsOf(back.output)).toEqual(wanted);
    expect(configOf(back.output)).toEqual(configOf(source));
  });

  it("reads both styles of config.json alike, and keeps the style", async () => {
    for (const [name, other] of [
      [llamaA, "config_transformers5_style"],
      [llamaB, "config_transformers4_style"],
    ] as const) {
      const json = JSON.parse(readFileSync(goldenPath(`06_models/${name}/${other}.json`), "utf8"));
      const source = await variant(fresh(), name, { config: () => json });
      const { output } = await convert(source, { dtype: "float16" });
      const { dtype, torch_dtype, ...rest } = configOf(output);
      expect([dtype ?? torch_dtype, dtype === undefined]).toEqual(["float16", other.includes("4")]);
      const { dtype: _, torch_dtype: __, ...wanted } = json;
      expect(rest).toEqual(wanted);
      const [a, b] = [await loadHfLlama(goldenPath(`06_models/${name}`)), await loadHfLlama(output)];
      expect(b.config).toEqual(a.config);
    }
  });

  it("E10: tensors, config.json and the file's size say the dtype that was asked for; values are rounded to nearest even", async () => {
    // 1 + 2⁻⁹ and 1 + 3·2⁻⁹ are ties of bfloat16, 1 + 2⁻¹¹ one of float16: to even, 1 and 1 + 2⁻⁷, 1.
    const ties = Float32Array.of(1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -11, -1 - 2 ** -8 - 2 ** -20);
    const source = await variant(fresh(), llamaB, {
      tensors: (tensors) => (tensors.get("model.norm.weight")!.data as Float32Array).set(ties),
    });
    const from = await tensorsOf(source);
    const values = [...from.values()].reduce((sum, { data }) => sum + data.length, 0);
    const rounded = {
      bfloat16: [1, 1 + 2 ** -6, 1, -1 - 2 ** -7],
      float16: [1 + 2 ** -8, 1 + 3 * 2 ** -8, 1, -1 - 2 ** -8],
    };
    for (const [dtype, bytes] of [
      ["float32", 4],
      ["bfloat16", 2],
      ["float16", 2],
    ] as const) {
      const result = await convert(source, { dtype, verify: true });
      expect(result.dtype).toBe(dtype);
      expect(configOf(result.output)).toMatchObject({ dtype });
      expect(configOf(result.output)).not.toHaveProperty("torch_dtype");
      const tensors = await tensorsOf(result.output);
      expect(new Set([...tensors.values()].map((tensor) => tensor.dtype))).toEqual(new Set([dtype]));
      const header = result.bytes - bytes * values;
      expect(header).toBeGreaterThan(0);
      expect(header).toBeLessThan(8192);
      expect(statSync(join(result.output, "model.safetensors")).size).toBe(result.bytes);
      for (const [name, { data }] of from)
        expect(tensors.get(name)!.data).toEqual(encodeArray(dtype, data as Float32Array));
      if (dtype !== "float32") {
        const { data } = tensors.get("model.norm.weight")!;
        expect([...decodeArray(dtype, data)].slice(0, 4)).toEqual(rounded[dtype]);
      }
    }
  });

  it("refuses values that the dtype can't hold, and values that are no numbers", async () => {
    const large = await variant(fresh(), llamaB, {
      tensors: (tensors) => {
        (tensors.get("model.layers.1.mlp.up_proj.weight")!.data as Float32Array)[77] = 70000;
      },
    });
    expect(await refusal(large, { dtype: "float16" })).toBe(
      '"model.layers.1.mlp.up_proj.weight": value 77 is 70000, more than float16 holds: take dtype=bfloat16 or float32',
    );
    await convert(large, { dtype: "bfloat16" });
    const nan = await variant(fresh(), llamaB, {
      tensors: (tensors) => {
        (tensors.get("model.norm.weight")!.data as Float32Array)[3] = Number.NaN;
      },
    });
    expect(await refusal(nan)).toBe('"model.norm.weight": value 3 is NaN; weights must be finite');
  });

  it("writes shards below a size with an index that tells the truth, and reads them again", async () => {
    const source = goldenPath(`06_models/${llamaA}`);
    const { output, shards } = await convert(source, { maxShardBytes: 60_000 });
    const files = readdirSync(output).filter((name) => name.endsWith(".safetensors"));
    expect(files.map((name) => name.replace(/\d{5}/, "N"))).toEqual(
      Array.from({ length: shards }, () => `model-N-of-${String(shards).padStart(5, "0")}.safetensors`),
    );
    for (const file of files) expect(statSync(join(output, file)).size).toBeLessThan(65_000);
    const index = JSON.parse(readFileSync(join(output, "model.safetensors.index.json"), "utf8"));
    const wanted = await tensorsOf(source);
    expect(index.metadata.total_size).toBe([...wanted.values()].reduce((sum, { data }) => sum + data.byteLength, 0));
    expect(await tensorsOf(output)).toEqual(wanted);
    const one = await convert(output);
    expect([one.shards, await tensorsOf(one.output)]).toEqual([1, wanted]);
  });

  it("takes the single file of a folder that has shards too, as transformers does, and says so", async () => {
    const { output: folder } = await convert(goldenPath(`06_models/${llamaA}`), { maxShardBytes: 60_000 });
    const single = await tensorsOf(goldenPath(`06_models/${llamaA}`));
    const norm = single.get("model.norm.weight")!;
    single.set("model.norm.weight", { ...norm, data: (norm.data as Uint16Array).map((bits) => bits + 1) });
    await writeSafetensors(join(folder, "model.safetensors"), single);
    const { output, notes } = await convert(folder);
    expect(await tensorsOf(output)).toEqual(single);
    expect(notes).toEqual([
      `${folder} has model.safetensors and model.safetensors.index.json: the single file was read`,
      noTokenizer,
    ]);
    const quantized = fresh();
    const written = await quantizeModel(folder, quantized, { format: weightFormats.mxfp8 });
    expect(written.notes).toEqual(notes);
    expect(readdirSync(quantized).filter((name) => name.includes("safetensors"))).toEqual(["model.safetensors"]);
    // A single file that lacks something is refused, though the shards have it.
    single.delete("model.norm.weight");
    await writeSafetensors(join(folder, "model.safetensors"), single);
    expect(await refusal(folder)).toMatch(/"model.norm.weight" is missing/);
  });

  it("says that float64 weights are rounded where no dtype is asked for", async () => {
    const source = await variant(fresh(), llamaB, {
      tensors: (tensors) => {
        for (const name of ["model.norm.weight", "model.layers.0.mlp.up_proj.weight"]) {
          const { shape, data } = tensors.get(name)!;
          tensors.set(name, hostArray(shape, "float64", Float64Array.from(data as Float32Array)));
        }
      },
    });
    const { output, notes } = await convert(source);
    expect(notes).toEqual([
      "2 tensors were rounded from float64 to float32, the widest dtype that is written",
      noTokenizer,
    ]);
    expect(await tensorsOf(output)).toEqual(await tensorsOf(goldenPath(`06_models/${llamaB}`)));
    expect((await convert(source, { dtype: "float32" })).notes).toEqual([noTokenizer]);
  });

  it.each(["nvfp4a16", "mxfp4", "mxfp8", "fp8", "fp8_dynamic", "fp8_block"] as const)(
    "makes plain weights of %s: code times scale in float32, rounded once to what is asked for",
    async (name) => {
      const quantized = fresh();
      const format = weightFormats[name];
      await quantizeModel(goldenPath(`06_models/${llamaA}`), quantized, {
        format,
        ...(format.fixedInputs && { inputAmax: 4 }),
      });
      const wanted = await decodedByHand(quantized);
      expect(wanted.size).toBe(28);
      const wide = await convert(quantized, { dtype: "float32", verify: true });
      expect(wide).toMatchObject({ dtype: "float32", verification: { maxDifference: 0 } });
      const plain = await convert(quantized, { verify: true });
      expect(plain).toMatchObject({ dtype: "bfloat16", notes: [noTokenizer], verification: { sameBest: 12 } });
      expect(configOf(plain.output)).not.toHaveProperty("quantization_config");
      const [exact, rounded] = [await tensorsOf(wide.output), await tensorsOf(plain.output)];
      for (const [weight, values] of wanted) {
        expect(exact.get(weight)!.data, weight).toEqual(values);
        expect(rounded.get(weight)!.data, weight).toEqual(encodeArray("bfloat16", values));
      }
      // Any rows alone are those of the whole.
      const source = await openSource(quantized);
      const { shape, readPart } = source.tensors.get("model.layers.1.mlp.down_proj.weight")!;
      const [rows, columns] = shape as [number, number];
      const whole = wanted.get("model.layers.1.mlp.down_proj.weight")!;
      for (const [begin, end] of [
        [0, 1],
        [17, 19],
        [rows - 1, rows],
      ] as const) {
        const { data } = await readPart(begin * columns, (end - begin) * columns);
        expect(data).toEqual(whole.slice(begin * columns, end * columns));
      }
      await source.close();
    },
  );
});

/** Weights of a quantized folder of one file, in the simplest words: each element's value times its scale, in float32. */
async function decodedByHand(folder: string): Promise<Map<string, Float32Array>> {
  const stored = await tensorsOf(folder);
  const values = (name: string) => {
    const found = stored.get(name);
    if (found === undefined) return undefined;
    const dtype = name.endsWith("weight_scale") && found.dtype === "uint8" ? "float8_e8m0fnu" : found.dtype;
    return { shape: found.shape, data: decodeArray(dtype, found.data) };
  };
  const decoded = new Map<string, Float32Array>();
  for (const [name, { shape, dtype, data }] of stored) {
    const [, module, packed] = /^(.*)\.weight(_packed)?$/.exec(name) ?? [];
    const scales = module === undefined ? undefined : values(`${module}.weight_scale`);
    if (scales === undefined) continue;
    const codes = data as Uint8Array;
    const nibbles = () =>
      Uint8Array.from({ length: 2 * codes.length }, (_, i) => (codes[i >> 1]! >> (4 * (i & 1))) & 15);
    const elements = packed ? decodeArray("float4_e2m1fn", nibbles()) : decodeArray(dtype, codes);
    const [rows, columns] = [shape[0]!, elements.length / shape[0]!];
    const [down, across] = [scales.shape[0]!, scales.shape[1] ?? 1];
    const global = values(`${module}.weight_global_scale`)?.data[0];
    // Square blocks have 128 rows; every other scale is that of one row, or of all.
    const rowOf = (r: number) => (down === rows ? r : Math.floor(r / (down === 1 ? rows : 128)));
    const width = across === 1 ? columns : down === rows ? columns / across : 128;
    decoded.set(
      `${module}.weight`,
      Float32Array.from(elements, (element, i) => {
        const scale = scales.data[rowOf(Math.floor(i / columns)) * across + Math.floor((i % columns) / width)]!;
        return element * (global === undefined ? scale : Math.fround(scale / global));
      }),
    );
  }
  return decoded;
}

describe("what Hugging Face's folders hold and lack", () => {
  const head = (change: (embedding: HostArray) => HostArray) => (tensors: Map<string, HostArray>) =>
    tensors.set("lm_head.weight", change(tensors.get("model.embed_tokens.weight")!));

  it("E1: tied, untied without a head, and not said", async () => {
    const tied = (value: unknown) => (config: Record<string, unknown>) => ({ ...config, tie_word_embeddings: value });
    // (a) tied: no head needed, and one that is the embedding once more is left out.
    expect((await convert(goldenPath(`06_models/${llamaB}`))).dropped).toEqual([]);
    const again = await variant(fresh(), llamaB, { tensors: head((embedding) => embedding) });
    const { dropped, output } = await convert(again);
    expect(dropped).toEqual(["lm_head.weight"]);
    expect((await tensorsOf(output)).has("lm_head.weight")).toBe(false);
    // A head of its own under a configuration that says tied: which of the two is meant can't be known.
    const other = await variant(fresh(), llamaB, {
      tensors: head(({ shape, dtype, data }) =>
        hostArray(
          shape,
          dtype,
          (data as Float32Array).map((v) => v + 1),
        ),
      ),
    });
    const both = /tie_word_embeddings: true, but "lm_head.weight" is not "model.embed_tokens.weight"/;
    expect(await refusal(other)).toMatch(both);
    await expect(loadHfLlama(other)).rejects.toThrow(both);
    // (b) not tied, and no head; (c) not said, which means not tied.
    for (const value of [false, undefined]) {
      const without = await variant(fresh(), llamaB, { config: tied(value) });
      const missing =
        /"lm_head.weight" is missing .*config.json must say tie_word_embeddings: true; left out it means false/;
      expect(await refusal(without)).toMatch(missing);
      await expect(loadHfLlama(without)).rejects.toThrow(missing);
    }
    // Untied with a head of its own, not said.
    expect((await convert(await variant(fresh(), llamaA, { config: tied(undefined) }))).tensors).toBe(39);
  });

  it("E3: a shard that is missing and an index that names what is not there fail before a weight is read", async () => {
    const { output: folder } = await convert(goldenPath(`06_models/${llamaA}`), { maxShardBytes: 250_000 });
    const [first, second] = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
    const index = JSON.parse(readFileSync(join(folder, "model.safetensors.index.json"), "utf8"));
    const moved = Object.keys(index.weight_map).find((name) => index.weight_map[name] === first)!;
    const wrong = { ...index, weight_map: { ...index.weight_map, [moved]: second } };
    writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify(wrong));
    expect(await refusal(folder)).toContain(`names what is not there: "${moved}" in ${second}`);
    writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify(index));
    rmSync(join(folder, second!));
    expect(await refusal(folder)).toContain(`${second}: no such file`);
    await expect(loadHfLlama(folder)).rejects.toThrow(`${second}: no such file`);
  });

  it("E11: lists tensors that are no part of the model, as adapters that were never merged", async () => {
    const lora = (module: string, part: string) => `model.layers.0.self_attn.${module}.lora_${part}.weight`;
    const names = ["q_proj", "v_proj"].flatMap((module) => [lora(module, "A"), lora(module, "B")]);
    const source = await variant(fresh(), llamaB, {
      tensors: (tensors) => {
        for (const name of names) tensors.set(name, hostArray([8], "float32", new Float32Array(8)));
      },
    });
    const listed = `${names.map((name) => `"${name}"`).join(", ")} are no tensors of a Llama model like this one`;
    expect(await refusal(source)).toContain(listed);
    await expect(loadHfLlama(source)).rejects.toThrow(listed);
    const many = await variant(fresh(), llamaB, {
      tensors: (tensors) => {
        for (let i = 0; i < 20; i++) tensors.set(`extra.${i}`, hostArray([1], "float32", new Float32Array(1)));
      },
    });
    expect(await refusal(many)).toMatch(/"extra.0", .* and 12 more are no tensors/);
  });

  it("reads Mistral where its window matters nothing, and refuses other families with what they need", async () => {
    const mistral = (changes: object) => (config: Record<string, unknown>) => {
      const { attention_bias: _, mlp_bias: __, ...rest } = config;
      return { ...rest, model_type: "mistral", architectures: ["MistralForCausalLM"], ...changes };
    };
    const whole = await variant(fresh(), llamaB, { config: mistral({ sliding_window: null }) });
    const { output } = await convert(whole, { verify: true });
    expect(configOf(output)).toMatchObject({ model_type: "mistral", sliding_window: null });
    const windowed = await variant(fresh(), llamaB, { config: mistral({ sliding_window: 12 }) });
    expect(await refusal(windowed)).toMatch(/attention sees 12 tokens back \(sliding_window\).*"sliding_window": null/);
    // Left out it means 4096, and num_key_value_heads 8.
    const bare = await variant(fresh(), llamaB, {
      config: (config) => {
        const { num_key_value_heads: _, ...rest } = mistral({ num_attention_heads: 8, head_dim: 6 })(config) as Record<
          string,
          unknown
        >;
        return rest;
      },
    });
    expect(await refusal(bare)).toMatch(/k_proj.weight" is float32\[16,48\]; the configuration needs \[48,48\]/);
    for (const [family, reason] of [
      ["qwen2", /"qwen2" is not read: its projections to queries, keys and values add biases; llama and mistral are/],
      ["qwen3", /"qwen3" is not read: it normalises the queries and keys of each head/],
      ["gemma2", /"gemma2" is not read: it has norms after its layers/],
      ["no_such", /"no_such" is not read; llama and mistral are/],
    ] as const)
      expect(await refusal(await variant(fresh(), llamaB, { config: mistral({ model_type: family }) }))).toMatch(
        reason,
      );
  });

  it("never replaces what is there", async () => {
    const folder = await variant(fresh(), llamaB);
    await expect(convertModel(folder, folder)).rejects.toThrow(/exists already/);
  });
});

describe("convertModel, GGUF to Hugging Face", () => {
  it("E8: rows of queries and keys come back into Hugging Face's order, whatever the heads", async () => {
    // 6 query heads and 2 of keys.
    const result = await convert(await ggufOf(`${fresh()}.gguf`, llamaB), { verify: true });
    expect(result).toMatchObject({ from: "gguf", dtype: "float32", dropped: [] });
    const wanted = await tensorsOf(goldenPath(`06_models/${llamaB}`));
    expect(await tensorsOf(result.output)).toEqual(wanted);
    // Its logits are computed from the file's own order, in which neighbours turn together.
    expect(result.verification!.maxDifference).toBeLessThan(1e-12);
    const { bos_token_id, eos_token_id, ...config } = configOf(result.output);
    expect([bos_token_id, eos_token_id]).toEqual([504, 505]);
    expect(goldenJson<object>(`06_models/${llamaB}/config_transformers4_style`)).toMatchObject(config);
  });

  it("verification notices rows in the wrong order", async () => {
    const { verifyConversion } = await import("../../src/convert/verify.ts");
    const source = await openSource(await ggufOf(`${fresh()}.gguf`, llamaB));
    await expect(verifyConversion(source, source.paired!, { exact: true })).rejects.toThrow(
      /logits of 12 tokens differ by/,
    );
    await source.close();
  });

  it("keeps an untied head, and finds Llama 3.1's rotary scaling in its factors", async () => {
    const scaling = {
      kind: "llama3",
      factor: 8,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalMaxPosition: 8192,
    } as const;
    const [plain, slower] = [undefined, scaling].map((scaling) =>
      ropeFrequencies({ headDim: 16, theta: 500000, ...(scaling && { scaling }) }),
    );
    const factors = Float32Array.from(plain!, (frequency, i) => frequency / slower![i]!);
    const freqs = (values: Float32Array) => ({
      "rope_freqs.weight": { shape: [8], type: 0, bytes: new Uint8Array(values.buffer) },
    });
    const result = await convert(await ggufOf(`${fresh()}.gguf`, llamaA, { tensors: freqs(factors) }), {
      verify: true,
    });
    expect(result.dropped).toEqual(["rope_freqs.weight"]);
    expect(configOf(result.output)).toMatchObject({
      tie_word_embeddings: false,
      rope_scaling: { rope_type: "llama3", factor: 8, original_max_position_embeddings: 8192 },
    });
    expect((await tensorsOf(result.output)).has("lm_head.weight")).toBe(true);
    const odd = await ggufOf(`${fresh()}.gguf`, llamaA, {
      tensors: freqs(Float32Array.from(factors, (f) => f + 0.01)),
    });
    expect(await refusal(odd)).toMatch(/rope_freqs.weight is no scaling of Llama 3.1's kind/);
  });

  it("decodes blocks, to bfloat16 unless another dtype is asked for", async () => {
    // Hidden 48 is no multiple of 32; of ffn 128 the down projection is: [48, 128].
    const bytes = new Uint8Array((48 * 128 * 34) / 32).fill(3);
    for (let at = 0; at < bytes.length; at += 34) bytes.set([0, 0x24], at); // float16 2⁻⁶
    const blocks = { "blk.1.ffn_down.weight": { shape: [48, 128], type: 8, bytes } };
    const file = await ggufOf(`${fresh()}.gguf`, llamaB, { tensors: blocks });
    const narrow = await convert(file, { verify: true });
    expect(narrow.dtype).toBe("bfloat16");
    expect(narrow.verification!.sameBest).toBe(12);
    const wide = await convert(file, { dtype: "float32", verify: true });
    const down = (await tensorsOf(wide.output)).get("model.layers.1.mlp.down_proj.weight")!;
    expect(new Set(down.data as Float32Array)).toEqual(new Set([3 * 2 ** -6]));
    expect(configOf(wide.output)).toMatchObject({ torch_dtype: "float32" });
  });

  it("reads the parts of a split file as the whole, from any of them, and says which are missing or strange", async () => {
    const stem = fresh();
    const [first, second, third] = (await splitGgufOf(stem, llamaB, 3)) as [string, string, string];
    const wanted = await tensorsOf(goldenPath(`06_models/${llamaB}`));
    for (const part of [first, third]) {
      const result = await convert(part, { verify: true });
      expect(result).toMatchObject({ from: "gguf", source: first, verification: { sameBest: 12 } });
      expect(await tensorsOf(result.output)).toEqual(wanted);
      expect(readdirSync(result.output)).toContain("tokenizer.json");
    }
    const bytes = readFileSync(second);
    writeFileSync(second, readFileSync(third));
    expect(await refusal(first)).toBe(
      `${second}: by its name it is part 2 of 3, and by its split.no and split.count part 3 of 3`,
    );
    rmSync(second);
    expect(await refusal(first)).toBe(
      `${first}: of the 3 parts of this split file, ${basename(second)} is not beside it`,
    );
    rmSync(first);
    expect(await refusal(third)).toMatch(/00001-of-00003.gguf, .*-00002-of-00003.gguf are not beside it$/);
    const renamed = `${fresh()}.gguf`;
    writeFileSync(renamed, bytes);
    expect(await refusal(renamed)).toMatch(
      /it is one of the 3 parts of a split file, .* must end in -00001-of-00003.gguf to -00003-of-00003.gguf$/,
    );
    // A part of another model.
    const other = await splitGgufOf(stem, llamaA, 3);
    writeFileSync(second, bytes);
    expect(await refusal(other[0]!)).toMatch(/: the tensor ".*" is in .*-00001-of-00003.gguf too$/);
  });

  it("refuses what the model has not, by name", async () => {
    const file = async (change: Parameters<typeof ggufOf>[2]) =>
      refusal(await ggufOf(`${fresh()}.gguf`, llamaB, change));
    const bias = { "blk.0.attn_q.bias": { shape: [48], type: 0, bytes: new Uint8Array(192) } };
    expect(await file({ tensors: bias })).toMatch(/has tensors that a Llama of 2 layers has not: "blk.0.attn_q.bias"/);
    expect(await file({ without: ["blk.1.ffn_up.weight"] })).toMatch(/"model.layers.1.mlp.up_proj.weight" is missing/);
    expect(await file({ metadata: { "general.architecture": "qwen2" } })).toMatch(
      /its architecture is "qwen2"; "llama" is read/,
    );
    expect(await file({ metadata: { "llama.rope.scaling.type": "yarn" } })).toMatch(/scaled by "yarn"/);
    for (const key of ["llama.rope.scaling.factor", "llama.rope.scale_linear"])
      for (const type of [undefined, "linear"])
        expect(await file({ metadata: { "llama.rope.scaling.type": type, [key]: 4 } })).toMatch(
          new RegExp(`scaled by "linear" \\(${key} is 4\\)`),
        );
    expect(await file({ metadata: { "llama.rope.scaling.attn_factor": 2 } })).toMatch(/attn_factor is 2/);
    expect(await file({ metadata: { "llama.rope.dimension_count": 4 } })).toMatch(/turn 4 of 8 values of a head/);
    expect(await file({ metadata: { "llama.expert_count": 8 } })).toMatch(/mixture of experts/);
    expect(await file({ metadata: { "llama.block_count": undefined } })).toMatch(/llama.block_count is missing/);
    expect(await file({ metadata: { "tokenizer.ggml.pre": "viking" } })).toMatch(
      /"viking" \(tokenizer.ggml.pre\), is not known/,
    );
  });
});

it.each([
  { "llama.rope.scaling.factor": 1 },
  { "llama.rope.scaling.type": "linear", "llama.rope.scale_linear": 1 },
  { "llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4 },
])("reads a GGUF file whose scaling changes nothing: %j", async (metadata) => {
  const { output } = await convert(await ggufOf(`${fresh()}.gguf`, llamaB, { metadata }), { verify: true });
  expect(configOf(output)).toMatchObject({ rope_scaling: null });
});

describe("convertModel, stopped", () => {
  it.each(["writing weights", "comparing logits"] as const)("leaves nothing: while %s", async (at) => {
    const stages = new Set<string>();
    const stopped = refusal(goldenPath(`06_models/${llamaB}`), {
      verify: true,
      onProgress({ stage, done, of }) {
        expect(done).toBeLessThanOrEqual(of);
        stages.add(stage);
        if (stage === at) throw new Error("stopped");
      },
    });
    expect(await stopped).toBe("stopped");
    expect([...stages].at(-1)).toBe(at);
  });
});

describe("convertModel, from and to Halfbyte", () => {
  it("gives weights that load_parameters_path takes, and that are refused where a byte has changed", async () => {
    const { output } = await convert(goldenPath(`06_models/${llamaB}`), { to: "halfbyte" });
    const { config, params } = await loadHfLlama(goldenPath(`06_models/${llamaB}`));
    expect((await loadParameters(output, config)).params).toEqual(params);
    await expect(loadParameters(output, { ...config, ropeTheta: 10000 })).rejects.toThrow(
      /the weights have rope_theta=500000, the run rope_theta=10000/,
    );
    const path = join(output, "params.safetensors");
    const bytes = readFileSync(path);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(path, bytes);
    expect(await refusal(output)).toMatch(/the checkpoint is damaged: params.safetensors has changed/);
  });
});

describe("safetensors", () => {
  it("E5: read headers of megabytes whole, and refuse lengths, names and dtypes that lie, before anything is made of them", async () => {
    const path = `${fresh()}.safetensors`;
    const one = hostArray([1], "float32", Float32Array.of(1));
    const names = Array.from({ length: 20_000 }, (_, i) => `model.layers.${i}.a_long_name_of_some_module.of_it.weight`);
    await writeSafetensors(
      path,
      names.map((name) => [name, one] as const),
      { format: "pt" },
    );
    expect(readFileSync(path).readBigUInt64LE(0)).toBeGreaterThan(2_000_000n);
    const file = await openSafetensors(path);
    expect([file.tensors.size, file.metadata]).toEqual([20_000, { format: "pt" }]);
    expect((await file.read(names[12_345]!)).data).toEqual(Float32Array.of(1));
    await file.close();

    const message = async (header: string | bigint) => {
      const json = Buffer.from(typeof header === "string" ? header : "{}");
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(typeof header === "bigint" ? header : BigInt(json.length));
      writeFileSync(path, Buffer.concat([length, json, Buffer.alloc(4)]));
      return openSafetensors(path).catch((error: Error) => error.message);
    };
    expect(await message(2n ** 60n)).toMatch(/a header of 11529215046068\d{5} bytes; at most 100000000 are read/);
    expect(await message(99_000_000n)).toMatch(/a header of 99000000 bytes in a file of/);
    const entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}';
    expect(await message(`{"a":${entry},"a":${entry}}`)).toMatch(/the name "a" appears twice/);
    expect(await message(`{"a":${entry.replace("F32", "F31")}}`)).toMatch(
      /"a" has the dtype "F31", which Halfbyte does not read/,
    );
    expect(await message(`{"__metadata__":{"a":1},"a":${entry}}`)).toMatch(/__metadata__ must map names to strings/);
    expect(await message(`{"a":${entry.replace("[1]", "[9007199254740991]")}}`)).toMatch(
      /data_offsets give it 4 bytes/,
    );
  });

  it("write parts as the whole, and refuse too few or too many of them", async () => {
    const path = `${fresh()}.safetensors`;
    const part = (values: number) => hostArray([values], "int8", new Int8Array(values).fill(values));
    const parts = (...sizes: number[]) => ({
      shape: [2, 3],
      dtype: "int8" as const,
      async *parts() {
        for (const size of sizes) yield part(size);
      },
    });
    await writeSafetensors(path, [["a", parts(1, 3, 2)]]);
    const file = await openSafetensors(path);
    expect((await file.read("a")).data).toEqual(Int8Array.of(1, 3, 3, 3, 2, 2));
    expect((await file.readPart("a", 1, 4)).data).toEqual(Int8Array.of(3, 3, 3, 2));
    await expect(file.readPart("a", 3, 4)).rejects.toThrow(/"a" is int8\[2,3\]; it has no values 3 to 7/);
    await file.close();
    await expect(writeSafetensors(path, [["a", parts(1, 3)]])).rejects.toThrow(
      /announced as int8\[2,3\] and came as 4 values/,
    );
    await expect(writeSafetensors(path, [["a", parts(4, 3)]])).rejects.toThrow(/came as int8\[3\]/);
  });
});

it("E9: every spelling of rotary scaling means the same, and an unknown one is refused", async () => {
  const { parseHfConfig } = await import("../../src/models/hfConfig.ts");
  const { rope_scaling, rope_theta, ...base } = configOf(goldenPath(`06_models/${llamaA}`));
  const llama3 = rope_scaling as Record<string, unknown>;
  const { rope_type, ...numbers } = llama3;
  const read = (config: object) => parseHfConfig({ ...base, ...config }, "float32").config;
  const wanted = read({ rope_scaling, rope_theta });
  expect(wanted).toMatchObject({ ropeTheta: 500000, ropeScaling: { kind: "llama3", originalMaxPosition: 64 } });
  for (const spelling of [
    { rope_theta, rope_scaling: { ...numbers, type: "llama3" } },
    { rope_theta, rope_scaling: { ...llama3, type: "llama3" } },
    { rope_parameters: { ...llama3, rope_theta } },
    { rope_parameters: { ...numbers, type: "llama3", rope_theta } },
    { rope_theta, rope_parameters: llama3 },
    { rope_theta, rope_scaling: llama3, rope_parameters: { ...llama3, rope_theta } },
    { rope_theta, rope_scaling: null, rope_parameters: { ...llama3, rope_theta } },
  ])
    expect(read(spelling), JSON.stringify(spelling)).toEqual(wanted);
  for (const plain of [
    { rope_scaling: null },
    {},
    { rope_parameters: { rope_type: "default" } },
    { rope_scaling: { type: "default" } },
  ])
    expect(read({ rope_theta, ...plain })).not.toHaveProperty("ropeScaling");
  const refused = (config: object) => expect(() => read(config));
  for (const type of ["linear", "dynamic", "yarn", "longrope", "llama3.1", "su", ""])
    refused({ rope_scaling: { ...llama3, rope_type: type } }).toThrow(`rope type "${type}" is not supported`);
  for (const key of ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"])
    refused({ rope_scaling: { ...llama3, [key]: undefined } }).toThrow(key);
  refused({ rope_scaling: { ...llama3, type: "yarn" } }).toThrow(/"llama3" \(rope_type\) and "yarn" \(type/);
  refused({ rope_theta: 1, rope_parameters: { rope_theta } }).toThrow(/rope_theta is 1, and 500000 in rope_parameters/);
  refused({ rope_scaling: llama3, rope_parameters: { ...llama3, factor: 4 } }).toThrow(/different values of factor/);
  refused({ rope_parameters: { full_attention: llama3 } }).toThrow(/has an object "full_attention"/);
});
