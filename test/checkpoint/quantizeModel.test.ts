/** Models quantized for inference and back: golden's bits, the other layouts, what is refused before anything is written. */
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
import { basename, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type WeightFormatName, weightFormats } from "../../src/checkpoint/compressedTensors.ts";
import { decompressModel } from "../../src/checkpoint/decompressModel.ts";
import { openModelFiles } from "../../src/checkpoint/modelFiles.ts";
import { writeSafetensors } from "../../src/checkpoint/safetensors.ts";
import { saveCheckpoint } from "../../src/checkpoint/trainingCheckpoint.ts";
import { quantizeModel } from "../../src/convert/quantizeModel.ts";
import { decodeArray, encodeArray } from "../../src/core/codecs.ts";
import { type HostArray, hostArray } from "../../src/core/index.ts";
import { initialState } from "../../src/train/state.ts";
import { golden, goldenJson, goldenPath } from "../golden.ts";
import { tinyModel } from "../train/tinyRun.ts";
import { splitCheckpoint } from "./pieces.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-quantize-"));
afterAll(() => rmSync(scratch, { recursive: true }));
let made = 0;
const fresh = () => join(scratch, `${made++}`);

const originals = await golden("15_compressed_tensors/original_bf16");
/** As golden's inputs were. */
const inputAmax = { "layers.0": 3.5, "layers.1": 4.5, "layers.2": 5.5 };
const ones = hostArray([2, 64], "bfloat16", new Uint16Array(128).fill(0x3f80));
const others: [string, HostArray][] = [
  ["model.embed_tokens.weight", ones],
  ["lm_head.weight", ones],
  ["model.norm.weight", hostArray([64], "float32", new Float32Array(64).fill(1))],
];

/** A folder of two shards: golden's weights, and tensors that stay as they are. */
async function sharded(): Promise<string> {
  const folder = fresh();
  mkdirSync(folder);
  const weights = originals.names.map((name) => [name, originals.get(name)] as const);
  const weight_map: Record<string, string> = {};
  for (const [file, entries] of Object.entries({
    "model-00001-of-00002.safetensors": weights.slice(0, 2),
    "model-00002-of-00002.safetensors": [...weights.slice(2), ...others],
  })) {
    await writeSafetensors(join(folder, file), entries, { format: "pt" });
    for (const [name] of entries) weight_map[name] = file;
  }
  const json = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value));
  json("model.safetensors.index.json", { metadata: { total_size: 1 }, weight_map });
  json("config.json", { model_type: "llama", torch_dtype: "bfloat16" });
  json("tokenizer.json", { kept: true });
  writeFileSync(join(folder, "pytorch_model.bin"), "other weights");
  return folder;
}

const readJson = (folder: string, name: string) => JSON.parse(readFileSync(join(folder, name), "utf8"));

async function tensorsOf(path: string): Promise<Map<string, HostArray>> {
  const model = await openModelFiles(path);
  const tensors = new Map<string, HostArray>();
  for (const name of model.specs.keys()) tensors.set(name, await model.read(name));
  await model.close();
  return tensors;
}

/** A file of these tensors. */
async function fileOf(tensors: Iterable<readonly [string, HostArray]>): Promise<string> {
  const path = `${fresh()}.safetensors`;
  await writeSafetensors(path, tensors);
  return path;
}

const quantize = (path: string, name: WeightFormatName, output = fresh()) =>
  quantizeModel(path, output, { format: weightFormats[name], inputAmax }).then((result) => ({ output, ...result }));

describe.each(Object.keys(weightFormats) as WeightFormatName[])("%s", (name) => {
  const preset = name.toUpperCase();
  it("writes what compressed-tensors writes, shard by shard, and reads it back", async () => {
    const source = await sharded();
    const { output, tensors } = await quantize(source, name);
    const stored = await golden(`15_compressed_tensors/${preset}`);
    const written = await tensorsOf(output);
    expect([...written.keys()].sort()).toEqual([...stored.names, ...others.map(([other]) => other)].sort());
    for (const tensor of stored.names) expect(written.get(tensor), tensor).toEqual(stored.get(tensor));
    for (const [tensor, array] of others) expect(written.get(tensor)).toEqual(array);
    expect(tensors.map((row) => row.name).sort()).toEqual([...originals.names].sort());

    const { quantization_config } = goldenJson<{ quantization_config: object }>(
      `15_compressed_tensors/${preset}.config`,
    );
    expect(readJson(output, "config.json")).toEqual({
      model_type: "llama",
      torch_dtype: "bfloat16",
      quantization_config,
    });
    expect(readdirSync(output).sort()).toEqual([
      "config.json",
      "model-00001-of-00002.safetensors",
      "model-00002-of-00002.safetensors",
      "model.safetensors.index.json",
      "tokenizer.json",
    ]);
    const sizes = [...written.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
    expect(readJson(output, "model.safetensors.index.json").metadata).toEqual({ total_size: sizes });

    const back = fresh();
    await decompressModel(output, back);
    const decoded = await golden(`15_compressed_tensors/${preset}.decompressed`);
    const plain = await tensorsOf(back);
    expect([...plain.keys()].sort()).toEqual([...decoded.names, ...others.map(([other]) => other)].sort());
    for (const tensor of decoded.names) expect(plain.get(tensor), tensor).toEqual(decoded.get(tensor));
    expect(readJson(back, "config.json")).toEqual({ model_type: "llama", torch_dtype: "bfloat16" });
  });
});

describe("quantizeModel", () => {
  it("makes a folder of a single file, with the configuration alone", async () => {
    const { output } = await quantize(goldenPath("15_compressed_tensors/original_bf16.safetensors"), "mxfp4");
    expect(readJson(output, "config.json")).toEqual(goldenJson("15_compressed_tensors/MXFP4.config"));
    expect(readdirSync(output).sort()).toEqual(["config.json", "model.safetensors"]);
  });

  it("leaves alone what a pattern names, and routers, and says so in the configuration", async () => {
    const source = await fileOf([
      ["a.q_proj.weight", originals.get("layers.0.weight")],
      ["a.down_proj.weight", originals.get("layers.1.weight")],
      ["a.mlp.gate.weight", originals.get("layers.1.weight")],
    ]);
    const output = fresh();
    const options = { format: weightFormats.mxfp8, ignore: ["*.down*"] };
    const { ignored, tensors } = await quantizeModel(source, output, options);
    expect(ignored.toSorted()).toEqual(["a.down_proj", "a.mlp.gate"]);
    expect(tensors.map(({ name }) => name)).toEqual(["a.q_proj.weight"]);
    expect(readJson(output, "config.json").quantization_config.ignore.toSorted()).toEqual([
      "a.down_proj",
      "a.mlp.gate",
      "lm_head",
    ]);
    await expect(quantizeModel(source, fresh(), { ...options, ignore: ["*.donw"] })).rejects.toThrow(
      /ignore=\*\.donw is no linear module's name.*there is a\./,
    );
  });

  it("refuses before anything is written, naming tensor and rule", async () => {
    const matrix = (shape: [number, number], f: (i: number) => number = (i) => i) =>
      hostArray(
        shape,
        "bfloat16",
        encodeArray(
          "bfloat16",
          Float32Array.from({ length: shape[0] * shape[1] }, (_, i) => f(i)),
        ),
      );
    const refusal = async (tensors: [string, HostArray][], name: WeightFormatName) => {
      const output = fresh();
      const error = await quantize(await fileOf(tensors), name, output).catch((caught: Error) => caught.message);
      expect(existsSync(output)).toBe(false);
      expect(readdirSync(scratch).filter((file) => file.includes(".tmp-"))).toEqual([]);
      return error;
    };
    const fine = matrix([4, 32]);
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const tensors: [string, HostArray][] = [
        ["a.weight", fine],
        ["b.weight", matrix([4, 32], (i) => (i === 40 ? bad : i))],
      ];
      for (const name of ["nvfp4a16", "mxfp4", "fp8_block"] as const)
        expect(await refusal(tensors, name)).toBe(
          `"b.weight": value 40 is ${bad}; weights must be finite to be quantized`,
        );
    }
    const odd: [string, HostArray][] = [
      ["a.weight", matrix([4, 24])],
      ["b.weight", matrix([4, 40])],
      ["c.weight", fine],
    ];
    expect(await refusal(odd, "mxfp4")).toMatch(
      /2 weights can't be quantized:\n {2}"a\.weight" is bfloat16\[4,24\]: dim 1 \(in\) of 24 must be a multiple of 32.*\n {2}"b/,
    );
    expect(await refusal([["a.weight", matrix([4, 24])]], "nvfp4a16")).toMatch(/multiple of 16; .*ignore=a$/);
    expect(await refusal([["model.norm.weight", fine]], "mxfp4")).toMatch(/no weights to quantize among its 1/);
    expect(await refusal([["a.weight", hostArray([1, 32], "int8", new Int8Array(32))]], "mxfp4")).toMatch(
      /int8\[1,32\]/,
    );
    expect(await refusal([["a.weight", fine]], "nvfp4")).toMatch(/nothing for 1 of 1 modules, the first is "a"/);

    const { output } = await quantize(await fileOf([["a.weight", fine]]), "mxfp4");
    await expect(quantize(output, "mxfp4")).rejects.toThrow(/quantized already.*to=bf16/);
    await expect(quantize(await fileOf([["a.weight", fine]]), "mxfp4", output)).rejects.toThrow(/exists already/);
  });

  it("leaves embeddings and heads alone, whatever their family calls them", async () => {
    const linear = ["gpt_neox.layers.0.attention.dense", "model.layers.0.mlp.shared_expert.up_proj", "score"];
    const tables = [
      "gpt_neox.embed_in",
      "shared",
      "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
      "model.decoder.embed_positions",
      "bert.embeddings.token_type_embeddings",
      "transformer.word_embeddings",
      "transformer.wte",
      "backbone.embeddings",
      "decoder.embed_tokens.3",
    ];
    const ends = ["embed_out", "lm_heads.1", "cls.predictions.decoder", "output", "transformer.output_layer"];
    const choosers = ["model.layers.0.mlp.shared_expert_gate", "ffn.router.layer"];
    const source = await fileOf(
      [...linear, ...tables, ...ends, ...choosers].map((module) => [`${module}.weight`, ones] as const),
    );
    const { tensors, output } = await quantize(source, "mxfp4");
    expect(tensors.map(({ name }) => name).sort()).toEqual(linear.map((module) => `${module}.weight`).sort());
    const { ignore } = readJson(output, "config.json").quantization_config;
    expect(ignore.toSorted()).toEqual(["lm_head", ...ends, ...choosers].sort());
  });

  it("refuses weights that would decode to infinity, and magnitudes whose scale can't be stored", async () => {
    const full = (value: number, dtype: "float32" | "float16" | "bfloat16" = "float32"): Promise<string> => {
      const data = encodeArray(dtype, new Float32Array(64).fill(value));
      return fileOf([["layers.0.weight", hostArray([2, 32], dtype, data)]]);
    };
    const most = await full(3.4028234663852886e38);
    await expect(quantize(most, "nvfp4a16")).rejects.toThrow(
      /"layers.0.weight": its largest values would decode to infinity in .*ignore=layers.0$/,
    );
    const { tensors } = await quantize(most, "mxfp4");
    expect(tensors[0]!.maxAbsError).toBeLessThan(1e38);

    const amax = async (value: number, name: WeightFormatName, dtype: "float16" | "bfloat16") =>
      quantizeModel(await full(1, dtype), fresh(), { format: weightFormats[name], inputAmax: value });
    const refused = /input_amax=.* can't be that of "layers.0": its scale would be stored as/;
    await expect(amax(1e300, "fp8", "bfloat16")).rejects.toThrow(refused);
    await expect(amax(1e30, "fp8", "float16")).rejects.toThrow(refused);
    await expect(amax(1e-9, "fp8", "float16")).rejects.toThrow(refused);
    await expect(amax(1e-300, "nvfp4", "bfloat16")).rejects.toThrow(refused);
    await expect(amax(1e300, "nvfp4", "bfloat16")).rejects.toThrow(refused);
    await amax(1e30, "fp8", "bfloat16");
    await amax(1e-30, "nvfp4", "bfloat16");
  });

  it("refuses what is left of another quantization, and weights without values", async () => {
    const scale: [string, HostArray] = ["layers.0.input_scale", hostArray([1], "float32", Float32Array.of(1))];
    const left = await fileOf([["layers.0.weight", ones], scale]);
    await expect(quantize(left, "fp8")).rejects.toThrow(/"layers.0.input_scale" is there already/);
    const empty = await fileOf([["a.weight", hostArray([0, 32], "bfloat16", new Uint16Array(0))]]);
    await expect(quantize(empty, "mxfp4")).rejects.toThrow(/"a.weight" is bfloat16\[0,32\], which has no values/);
  });

  it("refuses links to nothing before it writes, and removes what a killed run left of the same output", async () => {
    const source = await sharded();
    symlinkSync(join(source, "gone"), join(source, "vocab.json"));
    const output = fresh();
    const dead = join(scratch, `.${basename(output)}.tmp-999999999`);
    const other = join(scratch, ".mine.tmp-999999999");
    for (const folder of [dead, other]) mkdirSync(folder);
    await expect(quantize(source, "mxfp4", output)).rejects.toThrow(/vocab.json is a link to nothing/);
    rmSync(join(source, "vocab.json"));
    await quantize(source, "mxfp4", output);
    expect([existsSync(dead), existsSync(other)]).toEqual([false, true]);
    rmSync(other, { recursive: true });
  });

  it("says where a run's and a checkpoint's weights are", async () => {
    const folder = fresh();
    mkdirSync(join(folder, "checkpoints", "step-1"), { recursive: true });
    await expect(openModelFiles(join(folder, "checkpoints"))).rejects.toThrow(
      `these are a run's checkpoints: give the run's folder, ${folder}, or one step's folder in it`,
    );
    await expect(openModelFiles(folder)).rejects.toThrow(
      /it is a run, .*: halfbyte convert \S+ dtype=bfloat16 output=FOLDER makes bfloat16 of them$/,
    );
    writeFileSync(join(folder, "params.safetensors"), "");
    await expect(openModelFiles(folder)).rejects.toThrow(
      `it is a checkpoint, with plain float32 weights: halfbyte convert ${folder} dtype=bfloat16 output=FOLDER`,
    );
  });

  it("refuses an index that names what is not there", async () => {
    const source = await sharded();
    const index = readJson(source, "model.safetensors.index.json");
    index.weight_map["model.layers.9.weight"] = "model-00001-of-00002.safetensors";
    writeFileSync(join(source, "model.safetensors.index.json"), JSON.stringify(index));
    await expect(quantize(source, "mxfp4")).rejects.toThrow(/names what is not there: "model.layers.9.weight" in/);
    rmSync(join(source, "model-00002-of-00002.safetensors"));
    await expect(quantize(source, "mxfp4")).rejects.toThrow(/00002-of-00002.safetensors: no such file/);
  });

  it("stops where it is told to and leaves nothing", async () => {
    const output = fresh();
    let calls = 0;
    const stopped = quantizeModel(await sharded(), output, {
      format: weightFormats.nvfp4a16,
      onProgress: (done, of) => {
        expect(done).toBeLessThanOrEqual(of);
        if (++calls === 5) throw new Error("stopped");
      },
    });
    await expect(stopped).rejects.toThrow("stopped");
    expect(existsSync(output)).toBe(false);
    expect(readdirSync(scratch).filter((file) => file.includes(".tmp-"))).toEqual([]);
  });
});

describe("decompressModel", () => {
  const e4m3 = (shape: number[], f: (i: number) => number) =>
    hostArray(
      shape,
      "float8_e4m3fn",
      encodeArray(
        "float8_e4m3fn",
        Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => f(i)),
      ),
    );
  const floats = (shape: number[], ...values: number[]) => hostArray(shape, "float32", Float32Array.from(values));

  it("reads ModelOpt's NVFP4: the tensor scale multiplies", async () => {
    const file = await fileOf([
      [
        "a.weight",
        hostArray(
          [1, 16],
          "uint8",
          Uint8Array.from({ length: 16 }, (_, i) => i * 17),
        ),
      ],
      ["a.weight_scale", e4m3([1, 2], (i) => i + 2)],
      ["a.weight_scale_2", floats([], 0.25)],
      ["a.input_scale", floats([], 0.01)],
      ["k_proj.k_scale", floats([], 1)],
    ]);
    const output = fresh();
    await decompressModel(file, output);
    const tensors = await tensorsOf(output);
    expect([...tensors.keys()]).toEqual(["a.weight"]);
    const grid = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6];
    const wanted = Float32Array.from({ length: 32 }, (_, i) => grid[i >> 1]! * (i < 16 ? 0.5 : 0.75));
    expect(tensors.get("a.weight")).toEqual(hostArray([1, 32], "bfloat16", encodeArray("bfloat16", wanted)));
  });

  it.each([
    ["a tensor's scale", floats([], 0.5), () => 0.5],
    ["a channel's", floats([3], 0.5, 1, 2), (row: number) => 2 ** (row - 1)],
    [
      "blocks', with ModelOpt's dims",
      floats([1, 1, 2, 1], 2, 4),
      (_: number, column: number) => (column < 128 ? 2 : 4),
    ],
    ["E8M0 bytes", hostArray([3, 8], "uint8", new Uint8Array(24).fill(129)), () => 4],
  ] as const)("reads FP8 with %s", async (_, scale, factor) => {
    const codes = e4m3([3, 256], (i) => (i % 7) - 3);
    const output = fresh();
    await decompressModel(
      await fileOf([
        ["a.weight", codes],
        ["a.weight_scale", scale as HostArray],
      ]),
      output,
    );
    const wanted = Float32Array.from({ length: 768 }, (_, i) => ((i % 7) - 3) * factor(Math.floor(i / 256), i % 256));
    const found = (await tensorsOf(output)).get("a.weight")!;
    expect(found).toEqual(hostArray([3, 256], "bfloat16", encodeArray("bfloat16", wanted)));
  });

  it("takes blocks' size from the configuration, not from what divides a row", async () => {
    const values = Float32Array.from({ length: 960 }, (_, i) => Math.floor(i / 120) + 1);
    const weight = hostArray([1, 960], "bfloat16", encodeArray("bfloat16", values));
    const there = await quantize(await fileOf([["score.weight", weight]]), "fp8_block");
    const output = fresh();
    await decompressModel(there.output, output);
    const found = (await tensorsOf(output)).get("score.weight")!;
    const decoded = decodeArray("bfloat16", found.data) as Float32Array;
    expect(Math.max(...values.map((value, i) => Math.abs(decoded[i]! / value - 1)))).toBeLessThan(0.07);
  });

  it("makes the whole model bfloat16 where config.json said float16", async () => {
    const source = fresh();
    mkdirSync(source);
    const half = hostArray([2, 32], "float16", encodeArray("float16", new Float32Array(64).fill(1.5)));
    await writeSafetensors(join(source, "model.safetensors"), [
      ["a.weight", half],
      ["model.embed_tokens.weight", half],
      ["model.norm.weight", hostArray([1], "float32", Float32Array.of(1))],
    ]);
    writeFileSync(
      join(source, "config.json"),
      JSON.stringify({ torch_dtype: "float16", text_config: { dtype: "float16", other: [1] } }),
    );
    const { output } = await quantize(source, "mxfp8");
    expect(readJson(output, "config.json").torch_dtype).toBe("float16");
    const back = fresh();
    await decompressModel(output, back);
    const found = await tensorsOf(back);
    const wanted = hostArray([2, 32], "bfloat16", new Uint16Array(64).fill(0x3fc0));
    expect(found.get("model.embed_tokens.weight")).toEqual(wanted);
    expect(found.get("a.weight")).toEqual(wanted);
    expect(found.get("model.norm.weight")!.dtype).toBe("float32");
    expect(readJson(back, "config.json")).toEqual({
      torch_dtype: "bfloat16",
      text_config: { dtype: "bfloat16", other: [1] },
    });
  });

  it("refuses what it would decode wrongly", async () => {
    const refusal = async (...tensors: [string, HostArray][]) =>
      decompressModel(await fileOf(tensors), fresh()).catch((error: Error) => error.message);
    const codes = e4m3([4, 32], () => 1);
    const packed = hostArray([4, 16], "uint8", new Uint8Array(64));
    expect(await refusal(["a.weight", ones])).toMatch(/none of its 1 tensors is a quantized weight/);
    expect(await refusal(["a.weight", codes])).toMatch(/"a.weight" is float8_e4m3fn\[4,32\] without a weight_scale/);
    expect(await refusal(["a.weight", codes], ["a.weight_scale", floats([2, 5], ...new Float32Array(10))])).toMatch(
      /float32\[2,5\], which does not fit a weight of \[4,32\]/,
    );
    expect(await refusal(["a.weight_packed", packed], ["a.weight_scale", e4m3([4, 2], () => 1)])).toMatch(
      /there is no weight_global_scale or weight_scale_2/,
    );
    const scales: [string, HostArray] = ["a.weight_scale", e4m3([4, 2], () => 1)];
    for (const [global, message] of [
      [floats([1], 0), /"a.weight_global_scale" is 0; it must be above 0/],
      [floats([1], Number.NaN), /"a.weight_global_scale" is NaN/],
      [floats([0]), /"a.weight_global_scale" is float32\[0\]; it must be one float/],
      [floats([2], 1, 2), /float32\[2\]; it must be one float/],
    ] as const)
      expect(await refusal(["a.weight_packed", packed], scales, ["a.weight_global_scale", global])).toMatch(message);
    const nan = e4m3([4, 2], (i) => (i === 5 ? Number.NaN : 1));
    expect(
      await refusal(["a.weight_packed", packed], ["a.weight_scale", nan], ["a.weight_global_scale", floats([1], 1)]),
    ).toMatch(/"a.weight_scale": scale 5 makes a factor of NaN/);
    const power = hostArray([4, 1], "uint8", Uint8Array.of(127, 127, 255, 127));
    expect(await refusal(["a.weight", codes], ["a.weight_scale", power])).toMatch(/scale 2 makes a factor of NaN/);
    expect(
      await refusal(["a.weight", e4m3([4, 32], (i) => (i === 9 ? Number.NaN : 1))], ["a.weight_scale", floats([1], 1)]),
    ).toMatch(/"a.weight": code 9 is NaN/);
    const huge = e4m3([4, 32], (i) => (i === 7 ? 448 : 1));
    expect(await refusal(["a.weight", huge], ["a.weight_scale", floats([1], 1e36)])).toMatch(
      /"a.weight": value 7 decodes to more than bfloat16 holds/,
    );
    expect(await refusal(["a.qweight", packed])).toMatch(/"a.qweight" belongs to a layout that is not read/);
    expect(await refusal(["a.weight", packed], ["a.pre_quant_scale", floats([1], 1)])).toMatch(/pre_quant_scale/);
  });
});

describe("a run's weights", () => {
  const settings = { vocab_size: 60, make_vocab_size_divisible_by: 64, emb_dim: 32, mlp_dim: 64 };
  const sizes = { num_decoder_layers: 2, num_query_heads: 2, num_kv_heads: 1, head_dim: 16 };
  const progress = { ...{ step: 5, skippedInARow: 0, skippedSteps: 0, overflowSteps: 0 }, data: {} };
  const bytesOf = ({ data }: HostArray) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);

  it("of one process and of several become the same files, with the bits of the single file's, and a config.json", async () => {
    const run = fresh();
    const model = { ...tinyModel, mlpDim: 64, tieEmbeddings: false };
    const { path } = await saveCheckpoint(join(run, "checkpoints"), initialState(model, 5), {
      ...{ ...progress, provenance: { recipe: "bf16" } },
    });
    const own = { ...settings, ...sizes, logits_via_embedding: false, dataset_type: "synthetic" };
    writeFileSync(join(run, "config.json"), JSON.stringify(own));
    const pieces = fresh();
    await splitCheckpoint(path, join(pieces, "checkpoints", basename(path)), 2);
    writeFileSync(join(pieces, "config.json"), JSON.stringify(own));
    const outputs: string[] = [];
    for (const source of [run, pieces, path, join(pieces, "checkpoints", basename(path))]) {
      const output = fresh();
      const { notes } = await quantizeModel(source, output, { format: weightFormats.nvfp4a16 });
      expect(notes).toEqual([expect.stringContaining("the source has no tokenizer, so that none was written")]);
      outputs.push(output);
    }
    const [first, ...others] = outputs.map((output) => readFileSync(join(output, "model.safetensors")));
    for (const other of others) expect(other.equals(first!)).toBe(true);
    expect(readdirSync(outputs[1]!).sort()).toEqual(["config.json", "model.safetensors"]);
    expect(readJson(outputs[1]!, "config.json")).toMatchObject({
      ...{ model_type: "llama", vocab_size: 60, hidden_size: 32 },
      quantization_config: { format: "nvfp4-pack-quantized" },
    });

    const single = fresh();
    await quantizeModel(join(path, "params.safetensors"), single, { format: weightFormats.nvfp4a16 });
    const [wanted, found] = [await openModelFiles(single), await openModelFiles(outputs[1]!)];
    expect([...found.specs.keys()].sort()).toEqual([...wanted.specs.keys()].sort());
    for (const [name, { shape }] of found.specs) {
      const bytes = bytesOf(await found.read(name));
      // The single file's embedding and head have rows of padding.
      expect(bytes.equals(bytesOf(await wanted.read(name)).subarray(0, bytes.length)), name).toBe(true);
      if (name === "lm_head.weight") expect(shape).toEqual([60, 32]);
    }
    await Promise.all([wanted.close(), found.close()]);

    rmSync(join(pieces, "checkpoints", basename(path), "params-00002-of-00002.safetensors"));
    await expect(quantizeModel(pieces, fresh(), { format: weightFormats.nvfp4a16 })).rejects.toThrow(
      /the run has no whole checkpoint; .* is not used: params-00002-of-00002\.safetensors is missing$/,
    );
  });
});
