/** `halfbyte inspect numerics`: a block from its values to its codes, as a process; and its numbers against the quantizer's rules. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { writeSafetensors } from "../../src/checkpoint/index.ts";
import { roundTo } from "../../src/core/codecs.ts";
import { hostArray } from "../../src/core/index.ts";
import type { BlockDetail } from "../../src/quant/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

beforeAll(ensureBuilt);

const inspect = (...args: string[]) => halfbyte(["inspect", "numerics", ...args]);
const detailOf = async (...args: string[]): Promise<BlockDetail & { tensorSnrDb: number }> => {
  const { stdout, stderr } = await inspect(...args, "--json");
  expect(stderr).toBe("");
  return JSON.parse(stdout);
};

describe("inspect numerics", () => {
  it("shows numbers of one's own on their whole way", async () => {
    const folder = temporaryFolder();
    const svg = join(folder, "block.svg");
    const { stdout, exitCode } = await inspect("values=0.1,2,-3,5", `svg=${svg}`);
    expect(exitCode).toBe(0);
    expect(stdout.replace(svg, "SVG")).toMatchInlineSnapshot(`
      "nvfp4, x in fprop: e2m1 1x16 × e2m1 16x16
      matrix [1, 4] bfloat16, values=0.1,2,-3,5
      block 0,0 of 1×16: rows 0–0, columns 0–3

      A  largest magnitude under the outer scale  5
      S  encode scale of A                        537.6
      a  largest magnitude of the block           5
         its scale before rounding                448
      s  stored scale                             448 = 0x7e (float8_e4m3fn)
      e  what elements are multiplied by           1.2

      row  column     value       × e  code  rounded   decoded      error
        0       0  0.100098  0.120117   0x0        0         0  −0.100098
        0       1         2       2.4   0x4        2   1.66667  −0.333333
        0       2        −3      −3.6   0xe       −4  −3.33333  −0.333333
        0       3         5         6   0x7        6         5          0
      SNR of the block 22.1 dB, of the matrix 22.1 dB

          0,0  ┆           ┆     ┆    ┆  ┆  ┆  ┆  ●× ┆  ┆  ┆  ┆     ┆    ┆           ┆
          0,1  ┆           ┆     ┆    ┆  ┆  ┆  ┆  │  ┆  ┆  ┆  ● ×   ┆    ┆           ┆
          0,2  ┆           ● ×   ┆    ┆  ┆  ┆  ┆  │  ┆  ┆  ┆  ┆     ┆    ┆           ┆
          0,3  ┆           ┆     ┆    ┆  ┆  ┆  ┆  │  ┆  ┆  ┆  ┆     ┆    ┆           ◉
               −5                                 0                                  5
      × value   ● decoded   ◉ both   ┆ what codes stand for
      the picture is in SVG
      "
    `);
    expect(readFileSync(svg, "utf8").match(/<g>/g)).toHaveLength(4);
  });

  it("shows the rotation, and the neighbours of stochastic rounding with their chances", async () => {
    const args = ["synthetic=normal", "rows=32", "columns=4", "gemm=wgrad", "operand=dy", "block=1,2"];
    const { stdout } = await inspect(...args);
    expect(stdout).toContain("rotated first, in groups along columns: [32, 4]");
    expect(stdout).toMatch(/row +column +before +rotated +× e +between +away +code/);
    const first = await detailOf(...args, "rounding_seed=1");
    const second = await detailOf(...args, "rounding_seed=2");
    expect(first.elements.map(({ value }) => value)).toEqual(second.elements.map(({ value }) => value));
    expect(first.elements.map(({ rounded }) => rounded)).not.toEqual(second.elements.map(({ rounded }) => rounded));
    for (const { scaled, below, above, rounded, chanceAway } of first.elements) {
      expect([below, above]).toContain(rounded);
      const [near, far] = scaled < 0 ? [above, below] : [below, above];
      if (near !== far) expect(chanceAway).toBeCloseTo(Math.abs((scaled - near) / (far - near)), 4);
    }
  });

  it("agrees with the quantizer in every recipe's scale and elements", { timeout: 60_000 }, async () => {
    for (const [recipe, scaleDType] of [
      ["nvfp4", "float8_e4m3fn"],
      ["mxfp8", "float8_e8m0fnu"],
      ["fp8_current_scaling", "float32"],
    ] as const) {
      const block = await detailOf("synthetic=outlier", "rows=32", "columns=64", `quantization=${recipe}`, "operand=w");
      expect(block.scaleDType).toBe(scaleDType);
      if (scaleDType === "float8_e4m3fn") expect(roundTo(scaleDType, block.scaleBefore!)).toBe(block.scale);
      if (scaleDType === "float8_e8m0fnu") expect(2 ** Math.ceil(Math.log2(block.scaleBefore!))).toBe(block.scale);
      let [signal, noise] = [0, 0];
      for (const { value, scaled, below, above, rounded, decoded, error } of block.elements) {
        expect(scaled).toBe(Math.fround(value * block.encodeScale!));
        expect(rounded === below || rounded === above).toBe(true);
        expect(Math.abs(rounded - scaled)).toBeLessThanOrEqual(
          Math.min(Math.abs(above - scaled), Math.abs(below - scaled)),
        );
        expect(error).toBe(decoded - value);
        signal += value ** 2;
        noise += error ** 2;
      }
      expect(block.snrDb).toBeCloseTo(10 * Math.log10(signal / noise), 6);
    }
  });

  it("reads a weight of a file by its name", async () => {
    const path = join(temporaryFolder(), "w.safetensors");
    const values = Float32Array.from({ length: 32 * 32 }, (_, i) => Math.sin(i));
    await writeSafetensors(path, [["mlp.weight", hostArray([32, 32], "float32", values)]]);
    const block = await detailOf(path, "tensor=mlp.weight", "block=1,1");
    expect(block.elements[0]!.value).toBe(roundTo("bfloat16", Math.fround(Math.sin(16 * 32 + 16))));
    expect(block.elements).toHaveLength(256);
    expect((await inspect(path)).stderr).toContain("tensor=… is missing");
    expect((await inspect(path, "tensor=mlp.weigth")).stderr).toContain('Did you mean "mlp.weight"?');
  });

  it("shows delayed scaling as in a first step, or with the scale that is given", async () => {
    const args = ["values=3,0.3,-600", "quantization=fp8_delayed_scaling", "fp8_margin=3"];
    const first = await detailOf(...args);
    expect(first).toMatchObject({ scaleInForce: 1, scale: 1, encodeScale: 1 });
    expect(first.elements.map(({ decoded }) => decoded)).toEqual([3, 0.3125, -448]);
    const later = await detailOf(...args, "scale=0.5");
    expect(later).toMatchObject({ scaleInForce: 0.5, scale: 2, encodeScale: 0.5 });
    expect(later.elements.map(({ rounded }) => rounded)).toEqual([1.5, 0.15625, -288]);
    expect((await inspect(...args)).stdout).toContain("the scale in force is 1, as in a first step");
  });

  it("says what is not finite, and writes it in one way", async () => {
    const { stdout } = await inspect("values=1,1e39");
    expect(stdout).toContain("1 of 2 values is not finite in bfloat16");
    expect(stdout).toContain("SNR of the block none (values are not finite)");
    const json = JSON.parse((await inspect("values=1,Infinity", "--json")).stdout);
    expect(json).toMatchObject({ tensorSnrDb: "NaN", snrDb: "NaN", blockAmax: "Infinity" });
    expect(json.elements[1].value).toBe("Infinity");
    expect((await inspect("values=0,0")).stdout).toContain("none (all zeros)");
  });

  it("reads a folder of shards", async () => {
    const folder = temporaryFolder();
    const w = hostArray([1, 16], "float32", new Float32Array(16).fill(3));
    await writeSafetensors(join(folder, "b.safetensors"), [
      ["b.weight", w],
      ["none.weight", hostArray([0, 16], "float32", new Float32Array(0))],
    ]);
    await writeSafetensors(join(folder, "a.safetensors"), [["a.weight", w]]);
    const weight_map = { "a.weight": "a.safetensors", "b.weight": "b.safetensors", "none.weight": "b.safetensors" };
    writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify({ weight_map }));
    expect((await detailOf(folder, "tensor=b.weight")).elements[0]!.value).toBe(3);
    expect((await inspect(folder, "tensor=c.weight")).stderr).toContain('no tensor "c.weight" among 3');
    expect((await inspect(folder, "tensor=none.weight")).stderr).toContain(
      "blocks are of a matrix of floats with values",
    );
  });

  it.each([
    [["precision_policy=mlp_only"], "precision_policy has no effect"],
    [["values=1,2", "rows=3"], "rows has no effect: it is of synthetic="],
    [["scale=2"], "scale has no effect: nvfp4 finds"],
  ])("refuses %j, which would change nothing", async (args, message) => {
    const { exitCode, stderr } = await inspect(...args);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(message);
  });

  it.each([
    [["values=1,x,2"], 'number 2, "x", is none'],
    [["block=9,0", "values=1,2"], "must be ROW,COLUMN from 0,0 to 0,0"],
    [["gemm=fprop", "operand=dy"], "fprop reads x and w"],
    [["gemm=foo"], "must be one of fprop, dgrad, wgrad"],
    [["synthetic=odd"], "must be normal, or outlier"],
    [["tensor=a"], "needs a file"],
    [["quantization=none"], "does not quantize x in fprop"],
    [["values=1", "synthetic=normal"], "are two sources"],
  ])("refuses %j", async (args, message) => {
    const { exitCode, stderr } = await inspect(...args);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(message);
  });
});
