/** Precision from the command line: switches, overrides, evaluation and schedule of a run, as people set them. */
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { eventsOf, ofType } from "./runFiles.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

const train = (base: string, ...keys: string[]) =>
  halfbyte(["train", ...tinyKeys, `base_output_directory=${base}`, "run_name=a", ...keys]);

describe("a run's precision", () => {
  it("has the recipe's switches and the overrides, and its table says why", async () => {
    const base = temporaryFolder();
    const { exitCode, stdout, stderr } = await train(
      base,
      "steps=2",
      "quantization=nvfp4",
      "last_layers_bf16=0",
      "rht=false",
      "weight_scaling=1d",
      // dgrad of another recipe than fprop, which shares no copy of W with it; a whole block; a module.
      "precision_overrides=layers.0.mlp.up.dgrad=mxfp8,layers.1=bf16,layers.1.attn.*=fp8_current_scaling",
    );
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toContain("\nrht=false\nstochastic_rounding=true\nweight_scaling=1d\n");
    const table = stdout.slice(stdout.indexOf("matrix products of the linear layers:"), stdout.indexOf("compiling"));
    expect(table).toMatch(
      /block 0, attn\.q k v o, mlp\.gate down: fprop e2m1 1x16 × e2m1 1x16; dgrad e2m1 1x16 stochastic/,
    );
    expect(table).not.toContain("rotated");
    expect(table).toMatch(
      /block 0, mlp\.up: .*dgrad e4m3 1x32 × e4m3 1x32; .*dgrad by precision_overrides: layers\.0\.mlp\.up\.dgrad=mxfp8/,
    );
    expect(table).toMatch(/block 1, mlp\.gate up down: bf16 × bf16 \(native; precision_overrides: layers\.1=bf16\)/);
    expect(table).toMatch(/block 1, attn\.q k v o: .*e5m2 tensor.*layers\.1\.attn\.\*=fp8_current_scaling/);
    const [start] = ofType(eventsOf(join(base, "a")), "start");
    expect(start!.config).toMatchObject({ rht: "false", stochastic_rounding: "true", weight_scaling: "1d" });
    expect(ofType(eventsOf(join(base, "a")), "step").every(({ loss }) => loss < 5)).toBe(true);

    const other = await train(base, "steps=3", "quantization=nvfp4", "last_layers_bf16=0", "weight_scaling=1d");
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toMatch(
      /was started with other settings:\n {2}rht: false → true\n {2}precision_overrides: layers/,
    );
  });

  it("that no recipe or module has is refused before anything is compiled", async () => {
    const base = temporaryFolder();
    const refused = await train(
      base,
      "steps=2",
      "quantization=mxfp8",
      "rht=false",
      "precision_overrides=layers.*.mlp.dwon=bf16",
    );
    expect(refused).toMatchObject({ exitCode: 2, stdout: "" });
    expect(refused.stderr).toContain("rht=false has no effect: quantization=mxfp8 has no such switch");
    expect(refused.stderr).toContain("did you mean layers.*.mlp.down?");
  });
});
