/** Telemetry on the command line: a measured run's report at its end, and `halfbyte report numerics` later. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

describe("a measured run", () => {
  const report = (...args: string[]) => halfbyte(["report", "numerics", ...args]);

  it("ends with its worst tensors and a heat map, which the report shows later", { timeout: 200_000 }, async () => {
    const base = temporaryFolder();
    const run = join(base, "fp8");
    const keys = tinyKeys.map((key) => (key.startsWith("num_decoder_layers") ? "num_decoder_layers=1" : key));
    const own = ["quantization=mxfp8", "steps=3", "telemetry_period=2", "telemetry_gradient_cosine=false"];
    const trained = await halfbyte(["train", ...keys, ...own, "run_name=fp8", `base_output_directory=${base}`]);
    expect(trained.stderr).toBe("");
    expect(trained.exitCode).toBe(0);
    expect(trained.stdout).toMatch(
      /compiled numerics in .*; it takes [\d.]+ MB beside weights and batch while it runs/,
    );
    expect(trained.stdout).toMatch(
      /numerics of step: 2, lowest SNR: \d+\.\d dB \(layer 0 [\w.]+ (x|w|dy)\), most underflow/,
    );
    expect(trained.stdout).toContain("step 3: the worst SNR of 21 tensors");
    expect(trained.stdout).toContain("SNR dB of each linear layer's tensors, step 3");
    expect(trained.stdout).toContain(join(run, "numerics.svg"));
    const svg = readFileSync(join(run, "numerics.svg"), "utf8");
    expect(svg.match(/<g>/g)).toHaveLength(21);

    const shown = await report(run, "step=2", "tensor=dy", "statistic=underflow");
    expect(shown).toMatchObject({ exitCode: 0, stderr: "" });
    expect(shown.stdout).toContain("step 2: the worst underflow of 7 tensors");
    expect(shown.stdout).toContain("underflow % of each linear layer's tensors, step 2");
    expect(shown.stdout).toContain("Worst underflow % over the steps");
    expect(Math.max(...shown.stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(120);

    const all = JSON.parse((await report(run, "--json")).stdout);
    expect(all.map(({ step }: { step: number }) => step)).toEqual([2, 3]);
    expect(all[0].sites).toHaveLength(21);
    // MXFP8 has blocks with scales of their own and none for the tensor.
    expect(all[0].sites[0]).toMatchObject({ layer: 0, module: "attn.q", tensor: "x", format: "mxfp8" });
    expect(all[0].sites[0].tensorScale).toBeUndefined();
    const [one] = JSON.parse((await report(run, "step=3", "tensor=w", "--json")).stdout);
    expect([one.step, one.sites.length]).toEqual([3, 7]);

    expect(await report(run, "step=1")).toMatchObject({
      exitCode: 2,
      stderr: `halfbyte: step=1: the measured steps of ${run} are 2, 3\n`,
    });
    expect((await report(run, "statistic=snrr")).stderr).toContain("did you mean snr?");
  });

  it("is what the report asks for", async () => {
    expect((await report()).stderr).toContain("the run's folder is missing");
    expect(await report(temporaryFolder())).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("no folder of a run"),
    });
    expect((await halfbyte(["report", "numeric"])).stderr).toContain("did you mean numerics?");
    expect((await halfbyte(["help", "report", "numerics"])).stdout).toContain("Example: halfbyte report numerics");
  });
});
