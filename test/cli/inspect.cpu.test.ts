/** `halfbyte inspect` as people run it, at each stage. `vitest -u` rewrites texts/. */
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";
import { tinyKeys } from "../train/tinyRun.ts";

beforeAll(ensureBuilt);

const inspect = (...args: string[]) => halfbyte(["inspect", ...tinyKeys, ...args]);

describe("halfbyte inspect", () => {
  it("shows the products of a layer, and what they amount to", async () => {
    const { exitCode, stdout, stderr } = await inspect("stage=grad", "op=dot", "layer=0.mlp");
    expect(stderr).toBe("");
    expect(exitCode).toBe(0);
    // Numbers count the operations before, of whatever layer.
    await expect(stdout.replaceAll(/%\d+/g, "%n")).toMatchFileSnapshot("texts/inspect.txt");
  });

  it("needs neither text nor weights, whatever the size", async () => {
    const { exitCode, stdout } = await halfbyte([
      "inspect",
      "emb_dim=4096",
      "mlp_dim=14336",
      "num_decoder_layers=2",
      "num_query_heads=32",
      "num_kv_heads=8",
      "vocab_size=128256",
      "stage=grad",
      "layer=optimizer",
      "lines=2",
    ]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^1,486,901,248 parameters \(5\.948 GB in FP32\), bf16, 8 × 256 tokens a step\n/);
    expect(stdout).toMatch(/… [\d,]+ more lines: narrow them by op=… and layer=…/);
  });

  it("takes every configuration that train takes", async () => {
    const settings = Object.fromEntries(tinyKeys.map((key) => key.split("=")));
    const folder = temporaryFolder({
      "mine.mjs": `export default () => (${JSON.stringify(settings)});`,
      "mine.json": JSON.stringify(settings),
      "runs/a/config.json": JSON.stringify(settings),
      "text.json": JSON.stringify({ ...settings, dataset_type: undefined, dataset_path: "none.txt" }),
    });
    const wanted = (await inspect("op=dot")).stdout;
    expect(wanted).toContain("19,616 parameters");
    for (const word of ["mine.mjs", "mine.json", "runs/a"]) {
      expect(await halfbyte(["inspect", join(folder, word), "op=dot"]), word).toMatchObject({
        stderr: "",
        stdout: wanted,
      });
    }
    const filed = await halfbyte(["inspect", "llama-tiny", `config=${join(folder, "mine.json")}`, "op=dot"]);
    expect(filed).toMatchObject({ stderr: "", exitCode: 0 });
    expect(await halfbyte(["inspect", join(folder, "text.json"), "op=dot"])).toMatchObject({ stderr: "", exitCode: 0 });
    const unknown = await halfbyte(["inspect", "lama-tiny"]);
    expect(unknown).toMatchObject({ exitCode: 2, stdout: "" });
    expect(unknown.stderr).toContain('did you mean "llama-tiny"?');
  });

  it("shows StableHLO by the inputs' names", async () => {
    const { exitCode, stdout } = await inspect("stage=stablehlo", "op=convert", "layer=1.mlp.gate:fprop");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^layers\.1\.mlp\.gate:fprop +%\d+ = "stablehlo\.convert"\(%params\.layers\.1\.gate\)/m);
  });

  it("shows the optimized program, its fusions by layer, and its memory", async () => {
    const { exitCode, stdout } = await inspect("stage=hlo", "op=fusion", "layer=optimizer");
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^optimizer\S* +%\S+ = .* fusion\(/m);
    expect(stdout).toMatch(/memory of the compiled step: .* of state and batch, .* updated in place, .* temporary/);
  });

  it("gives the counts and the filtered list as JSON", async () => {
    const { exitCode, stdout } = await inspect("stage=trace", "op=*reduce*", "layer=head", "--json");
    expect(exitCode).toBe(0);
    const { stage, parameters, counts, operations } = JSON.parse(stdout);
    expect([stage, parameters]).toEqual(["trace", 19_616]);
    expect(counts.operations).toBe(operations.length);
    expect(operations.length).toBeGreaterThan(1);
    for (const { op, scope, text } of operations) {
      expect(op).toContain("reduce");
      expect(scope).toBe("head");
      expect(text).toContain(op);
    }
  });

  it.each([
    [["stage=gard"], "did you mean grad?"],
    [["op=convrt"], "did you mean convert?"],
    [["layer=mlp.gat"], "did you mean mlp.gate?"],
    [["layer=9"], "the layers are 0 to 1"],
    [["layer=head:fprp"], "did you mean fprop?"],
    [["op=exp", "layer=embed"], "no op=exp in layer=embed"],
    [["lines=some"], "must be a whole number, or all"],
    [["emb_dims=3"], "did you mean emb_dim?"],
  ])("%s is the user's mistake", async (args, message) => {
    const { exitCode, stderr } = await inspect(...args);
    expect(stderr).toContain(message);
    expect(exitCode).toBe(2);
  });
});
