/** What a checkpoint records of its run beside the arrays. */
import type { Progress } from "../checkpoint/index.ts";
import { sizesSet } from "../checkpoint/modelSizes.ts";
import {
  type Client,
  type NativeKernels,
  nativeKernels,
  type OneDnn,
  pluginIdentity,
  probeOneDnn,
} from "../pjrt/index.ts";
import { settingsOfSwitches, showOverride } from "../quant/index.ts";
import type { Done } from "./loop.ts";
import { nameOfPrecision, phasesOf } from "./phases.ts";
import type { RunPlan } from "./plan.ts";

/** Where a run stands: at its beginning, or at a checkpoint; those that count no steps by precision are of one. */
export function doneSoFar(plan: RunPlan, progress?: Progress): Done {
  if (progress === undefined) {
    return { step: 0, skippedInARow: 0, skippedSteps: 0, overflowSteps: 0, stepsByPrecision: {} };
  }
  const { step, skippedInARow, skippedSteps, overflowSteps, stepsByPrecision } = progress;
  const counts = stepsByPrecision ?? { [nameOfPrecision(plan.precision, plan)]: step };
  return { step, skippedInARow, skippedSteps, overflowSteps, stepsByPrecision: counts };
}

/** Says where a run goes on with other native kernels than its checkpoint was computed with; checkpoints may not tell. */
export async function otherKernelsNote(saved: Progress["provenance"], client: Client): Promise<string | undefined> {
  const native = await nativeKernels(client);
  const now = kernelsOf(native);
  const { nativeKernels: before = now } = saved;
  if (before === now) return undefined;
  const why = native.used ? "" : ` (${native.reason})`;
  return `the run goes on with other native kernels: ${before} until now, ${now} from here on${why}; results differ in rounding`;
}

/** Their instruction set and the first digits of their library's hash. */
const kernelsOf = (native: NativeKernels): string =>
  native.used ? `${native.instructionSet} ${native.identity.slice(0, 12)}` : "none";

/** What computes the run. */
export async function provenanceOf(plan: RunPlan, client: Client): Promise<Progress["provenance"]> {
  const { precision, model, seeds } = plan;
  const { recipe, policy, overrides, firstLayersBf16, lastLayersBf16, packedResiduals } = precision;
  return {
    recipe: recipe.name,
    switches: settingsOfSwitches(recipe.switches),
    gemms: { ...recipe.precision },
    policy,
    firstLayersBf16,
    lastLayersBf16,
    packedResiduals,
    overrides: overrides.map(showOverride),
    phases: phasesOf(plan).map(({ firstStep, precision }) => ({
      firstStep,
      precision: nameOfPrecision(precision, plan),
    })),
    seeds,
    model: sizesSet(model),
    dtype: model.dtype,
    platform: client.platformName,
    platformVersion: client.platformVersion,
    plugin: pluginIdentity(client.plugin),
    oneDnn: oneDnnText(await probeOneDnn(client)),
    nativeKernels: kernelsOf(await nativeKernels(client)),
  };
}

/** The operands that it multiplies: "bfloat16, float32", "none". */
const oneDnnText = (forms: OneDnn): string =>
  (["bfloat16", "float32"] as const).filter((dtype) => forms[dtype]).join(", ") || "none";
