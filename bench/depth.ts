/**
 * What depth costs to compile, with and without scan_layers: process CPU time and XLA's temporary memory of a training step of
 * small blocks.
 *
 *     npm run bench:depth -- [quantization=none] [layers=8,32]
 */
import { parseArguments } from "../src/cli/arguments.ts";
import { defaultClient } from "../src/pjrt/index.ts";
import { measureStep } from "./measuredStep.ts";
import type { Sizes } from "./workload.ts";

const { settings } = parseArguments(process.argv.slice(2), { maxWords: 0 });
const { quantization = "none", layers = "8,32" } = settings;
/** Small blocks, so that compiling outweighs the steps. */
const sizes: Omit<Sizes, "layers"> = { hidden: 64, heads: 2, kv: 1, ffn: 160, vocab: 256, batch: 2, seq: 64 };

process.stdout.write("| layers | scan_layers | compile CPU s | temporary MB |\n|---|---|---|---|\n");
for (const depth of String(layers).split(",").map(Number)) {
  for (const scanLayers of [false, true]) {
    const choice = { recipe: String(quantization), rematPolicy: "none" as const, scanLayers };
    const cost = await measureStep({ ...sizes, layers: depth }, choice, 0);
    const cells = [depth, scanLayers, cost.compileCpuSeconds.toFixed(1), (cost.temporaryBytes / 2 ** 20).toFixed(2)];
    process.stdout.write(`| ${cells.join(" | ")} |\n`);
  }
}
await defaultClient().destroy();
process.exit(0);
