/** `halfbyte report precision` as people run it: table, picture, shares and JSON of a run's precision. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

beforeAll(ensureBuilt);

const keys = [
  "dataset_type=synthetic",
  "num_decoder_layers=4",
  "emb_dim=48",
  "num_query_heads=3",
  "num_kv_heads=1",
  "head_dim=16",
  "mlp_dim=100",
  "vocab_size=259",
  "per_device_batch_size=3",
  "max_target_length=21",
  "steps=10",
  "quantization=nvfp4",
  "precision_overrides=layers.*.attn.*=fp8_current_scaling,layers.0.mlp.down.wgrad=bf16",
  "precision_switch_step=8",
  "eval_precision=same,bf16",
];
const report = (...args: string[]) => halfbyte(["report", ...args]);

/** FLOPs of a layer's modules at these sizes, each GEMM 2·in·out a token. */
const attention = 2 * (48 * 48 + 2 * 16 * 48 + 48 * 48);
const mlpModule = 2 * 48 * 100;
const layer = 3 * (attention + 3 * mlpModule);

describe("halfbyte report precision", () => {
  it("shows each phase as a picture and as a table, with what is padded, excluded and emulated, and why", async () => {
    const svg = join(temporaryFolder(), "precision.svg");
    const { exitCode, stdout, stderr } = await report("precision", ...keys, `svg=${svg}`);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toMatch(/^nvfp4, precision_policy=all_linear; validation in training's precision and in bf16\n/);
    const [, first = "", second = ""] = stdout.split(/^steps \d+ to \d+: .*$/m);
    expect(stdout).toContain("\nsteps 1 to 7: nvfp4\n");
    expect(stdout).toContain("\nsteps 8 to 10: nvfp4 with fprop in bf16\n");
    const cells = (text: string, row: number) => text.match(new RegExp(`^ +${row} {2}(.*)$`, "m"))![1]!.split(/ +/);
    const signs = (text: string, row: number) => cells(text, row).map((cell) => cell.replaceAll("·", "."));
    expect(signs(first, 0)).toEqual(["888", "888", "888", "888", "444", "444", "44."]);
    expect(signs(first, 2)).toEqual(["888", "888", "888", "888", "444", "444", "444"]);
    expect(signs(first, 3)).toEqual(["888", "888", "888", "888", "...", "...", "..."]);
    expect(signs(second, 1)).toEqual([".88", ".88", ".88", ".88", ".44", ".44", ".44"]);
    expect(first).toMatch(
      /^ +0–3 +attn\.q k v o +fprop +fp8 +.*emulated +none +precision_overrides: layers\.\*\.attn\.\*=fp8/m,
    );
    expect(first).toMatch(/^ +0–2 +mlp\.gate up +fprop +nvfp4 +e2m1 1x16 × e2m1 16x16 +emulated +out 100→112$/m);
    expect(first).toMatch(/^ +3 +mlp\.gate up down +dgrad +bf16 +bf16 × bf16 +native +none +last_layers_bf16$/m);
    expect(first).toMatch(
      /^emulated: the values .* multiplied in BF16, exactly, and summed in FP32\n.*no FP8 on CPUs/m,
    );
    expect(first).toContain("XLA multiplies no FP4 on CPUs");
    const picture = readFileSync(svg, "utf8");
    expect(picture.match(/<rect [^>]*><title>/g)).toHaveLength(2 * 4 * 7 * 3);
    expect(picture).toContain("layers.0.mlp.down wgrad: bf16");
  });

  it("gives every row and the shares of the FLOPs as JSON", async () => {
    const { stdout } = await report("precision", ...keys, "--json");
    const { phases, validation } = JSON.parse(stdout);
    expect(validation).toEqual(["same", "bf16"]);
    expect(
      phases.map(({ firstStep, lastStep }: { firstStep: number; lastStep: number }) => [firstStep, lastStep]),
    ).toEqual([
      [1, 7],
      [8, 10],
    ]);
    const shareOf = (phase: number, format: string) =>
      phases[phase].shares.find((share: { format: string }) => share.format === format).ofLinear;
    expect(shareOf(0, "fp8")).toBeCloseTo((3 * attention) / layer, 12);
    expect(shareOf(0, "bf16")).toBeCloseTo((9 * mlpModule + mlpModule) / (4 * layer), 12);
    expect(shareOf(1, "fp8")).toBeCloseTo((2 * attention) / layer, 12);
    for (const { shares } of phases) {
      for (const of of ["ofLinear", "ofAll"]) {
        expect(shares.reduce((sum: number, share: Record<string, number>) => sum + share[of]!, 0)).toBeCloseTo(1, 12);
      }
    }
    const rows: { module: string; gemm: string; firstLayer: number; lastLayer: number }[] = phases[0].rows;
    const layersOf = (module: string, gemm: string) =>
      rows
        .filter((row) => row.module === module && row.gemm === gemm)
        .reduce((sum, { firstLayer, lastLayer }) => sum + lastLayer - firstLayer + 1, 0);
    for (const module of ["attn.q", "mlp.down"])
      for (const gemm of ["fprop", "dgrad", "wgrad"]) expect(layersOf(module, gemm)).toBe(4);
  });

  it.each([
    [["precison"], 'unknown topic "precison"; did you mean precision?'],
    [[], "no topic is given; known are losses, precision, numerics"],
    [["precision", "quantization=nvfp5"], 'Did you mean "nvfp4"?'],
  ])("%j is refused: %s", async (args, message) => {
    const { exitCode, stderr } = await report(...args);
    expect(stderr).toContain(message);
    expect(exitCode).toBe(2);
  });
});
