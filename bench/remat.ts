/**
 * What each remat policy saves and costs: XLA's temporary memory of a training step, its CPU time ÷ 2, the time to compile.
 *
 *     npm run bench:remat -- [quantization=none] [scan=false,true] [packed=false] [steps=3] [layers=8]
 */
import { parseArguments } from "../src/cli/arguments.ts";
import { type RematPolicyName, rematPolicies } from "../src/models/rematPolicies.ts";
import { defaultClient } from "../src/pjrt/index.ts";
import { measureStep } from "./measuredStep.ts";
import type { Sizes } from "./workload.ts";

const { settings } = parseArguments(process.argv.slice(2), { maxWords: 0 });
const { quantization = "none", scan = "false,true", packed = "false", steps = "3", layers = "8", policies } = settings;
const workload: Sizes = {
  layers: Number(layers),
  hidden: 256,
  heads: 4,
  kv: 2,
  ffn: 704,
  vocab: 2048,
  batch: 4,
  seq: 256,
};
const names = policies === undefined ? Object.keys(rematPolicies) : String(policies).split(",");

/** Names the policy keeps, as they stand in `rematPolicies`. */
function kept(name: RematPolicyName): string {
  const policy: { readonly dots?: boolean; readonly names?: readonly string[] } | undefined = rematPolicies[name];
  if (policy === undefined) return "everything";
  const list = [...(policy.dots ? ["products with weights"] : []), ...(policy.names ?? [])];
  return list.length === 0 ? "block inputs" : list.join(", ");
}

process.stdout.write(
  "| policy | keeps | scan_layers | packed_residuals | temporary MB | step ms | compile CPU s | loss |\n|---|---|---|---|---|---|---|---|\n",
);
const choices = String(scan)
  .split(",")
  .flatMap((scanLayers) =>
    String(packed)
      .split(",")
      .map((packedResiduals) => ({ scanLayers: scanLayers === "true", packedResiduals: packedResiduals === "true" })),
  );
for (const { scanLayers, packedResiduals } of choices) {
  for (const rematPolicy of names as RematPolicyName[]) {
    const choice = { recipe: String(quantization), rematPolicy, scanLayers, packedResiduals };
    const cost = await measureStep(workload, choice, Number(steps));
    const cells = [
      rematPolicy,
      kept(rematPolicy),
      scanLayers,
      packedResiduals,
      (cost.temporaryBytes / 2 ** 20).toFixed(1),
      cost.stepSeconds === undefined ? "" : (cost.stepSeconds * 1000).toFixed(0),
      cost.compileCpuSeconds.toFixed(1),
      cost.loss ?? "",
    ];
    process.stdout.write(`| ${cells.join(" | ")} |\n`);
  }
}
await defaultClient().destroy();
process.exit(0);
