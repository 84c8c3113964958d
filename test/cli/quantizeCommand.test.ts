/** `halfbyte quantize` as a process: a model there and back, its report, what it refuses. */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadHfLlama } from "../../src/checkpoint/hfLlama.ts";
import { openModelFiles } from "../../src/checkpoint/modelFiles.ts";
import { type HostArray, treeLeaves } from "../../src/core/index.ts";
import { ggufOf, llamaB } from "../convert/models.ts";
import { golden, goldenPath } from "../golden.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-quantize-"));
beforeAll(ensureBuilt);
afterAll(() => rmSync(scratch, { recursive: true }));

/** Golden's weights as a folder. */
function source(): string {
  const folder = join(scratch, "source");
  if (existsSync(folder)) return folder;
  mkdirSync(folder);
  copyFileSync(goldenPath("15_compressed_tensors/original_bf16.safetensors"), join(folder, "model.safetensors"));
  writeFileSync(join(folder, "config.json"), '{"model_type":"llama"}');
  writeFileSync(join(folder, "tokenizer.json"), "{}");
  return folder;
}

async function expectGolden(folder: string, name: string): Promise<void> {
  const [found, wanted] = [await openModelFiles(folder), await golden(`15_compressed_tensors/${name}`)];
  expect([...found.specs.keys()].sort()).toEqual([...wanted.names].sort());
  for (const tensor of wanted.names) expect(await found.read(tensor), tensor).toEqual(wanted.get(tensor));
  await found.close();
}

describe("halfbyte quantize", () => {
  it("quantizes a folder as compressed-tensors does and makes bfloat16 of it again", async () => {
    const amax = join(scratch, "amax.json");
    writeFileSync(amax, JSON.stringify({ "layers.0": 3.5, "layers.1": 4.5, "layers.2": 5.5 }));
    const [there, back] = [join(scratch, "nvfp4"), join(scratch, "again")];
    const args = ["quantize", source(), "to=NVFP4", `output=${there}`, `input_amax=${amax}`];
    const { exitCode, stdout, stderr } = await halfbyte(args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(/^weight +shape +SNR dB .*\nlayers\.\d\.weight +\d+×\d+ +\d\d\.\d /);
    expect(stdout).toContain("3 weights as nvfp4: NVFP4 weights and inputs\n");
    expect(stdout).not.toContain("note:");
    await expectGolden(there, "NVFP4");
    expect(readFileSync(join(there, "tokenizer.json"), "utf8")).toBe("{}");

    expect((await halfbyte(["quantize", there, "to=bf16", `output=${back}`])).exitCode).toBe(0);
    await expectGolden(back, "NVFP4.decompressed");
  });

  it("reports every tensor as JSON, the worst first, for a model that then loads", async () => {
    const model = goldenPath("06_models/llama_a_untied_llama3rope");
    const [there, back] = [join(scratch, "mxfp8"), join(scratch, "plain")];
    const ran = await halfbyte(["quantize", model, "to=mxfp8", `output=${there}`, "ignore=*.0.mlp.*", "--json"]);
    const report = JSON.parse(ran.stdout);
    expect(report).toMatchObject({ output: there, format: "mxfp8", layout: "mxfp8-quantized", ignored: { length: 3 } });
    expect(report.notes).toEqual([expect.stringContaining("the source has no tokenizer, so that none was written")]);
    const errors = report.tensors.map((row: { relativeSquaredError: number }) => row.relativeSquaredError);
    expect(errors).toHaveLength(25);
    expect(errors).toEqual(errors.toSorted((a: number, b: number) => b - a));
    expect(report.tensors[0]).toMatchObject({ zeroBlocks: 0, saturatedPercent: 0 });
    expect(report.tensors[0].snrDb).toBeGreaterThan(28);

    await halfbyte(["quantize", there, "to=bf16", `output=${back}`]);
    const [exact, decoded] = [await loadHfLlama(model), await loadHfLlama(back)];
    expect(decoded.config).toEqual(exact.config);
    const [a, b] = [treeLeaves<HostArray>(exact.params), treeLeaves<HostArray>(decoded.params)];
    let [error, squares] = [0, 0];
    for (const [i, { data }] of a.entries()) {
      for (const [j, value] of (data as Float32Array).entries()) {
        error += (value - (b[i]!.data as Float32Array)[j]!) ** 2;
        squares += value ** 2;
      }
    }
    expect(error / squares).toBeLessThan(errors[0]);
    expect(error).toBeGreaterThan(0);
  });

  it.each([
    [["to=mxfp4", "output=x"], "E_ARGUMENT", /the model is missing/],
    [["MODEL", "output=x"], "E_KEY", /to=… is missing/],
    [["MODEL", "to=nvfp5", "output=NEW"], "E_FORMAT", /did you mean nvfp4\?/],
    [["MODEL", "to=nvfp4", "output=NEW"], "E_INPUT_AMAX", /take to=nvfp4a16/],
    [["MODEL", "to=fp8", "output=NEW", "input_amax=-1"], "E_INPUT_AMAX", /must be a number above 0/],
    [["MODEL", "to=mxfp4", "output=NEW", "input_amax=3"], "E_NO_EFFECT", /stores nothing of the inputs/],
    [["MODEL", "to=bf16", "output=NEW", "ignore=a"], "E_NO_EFFECT", /ignore has no effect/],
    [["MODEL", "to=bf16", "output=NEW"], "E_QUANTIZED", /none of its 3 tensors/],
    [["MODEL", "to=mxfp4", "output=MODEL"], "E_OUTPUT", /exists already/],
    [["NOWHERE", "to=mxfp4", "output=NEW"], "E_CHECKPOINT", /no such file or folder/],
    [
      ["FILE", "to=mxfp4", "output=NEW"],
      "E_SAFETENSORS",
      /it is a GGUF file: halfbyte convert \S+ output=FOLDER makes/,
    ],
  ])("refuses %j", async (words, code, message) => {
    const places: Record<string, string> = {
      ...{ MODEL: source(), NEW: join(scratch, "new"), NOWHERE: join(scratch, "no") },
      FILE: await ggufOf(join(scratch, "model.gguf"), llamaB),
    };
    const args = words.map((word) => word.replace(/MODEL|NEW|NOWHERE|FILE/, (place) => places[place]!));
    const { exitCode, stdout } = await halfbyte(["quantize", ...args, "--json"]);
    expect(exitCode).toBe(2);
    expect(JSON.parse(stdout).error).toMatchObject({ code, message: expect.stringMatching(message) });
    expect(existsSync(places.NEW!)).toBe(false);
  });
});
