/** `halfbyte inspect`: a configuration's training step at each stage of its way to XLA. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import type { Config } from "../config/index.ts";
import { showScope } from "../core/index.ts";
import {
  bytesOf,
  countOperations,
  filterOperations,
  flopsOf,
  type ListedOperation,
  type ListingFilter,
  layerNames,
} from "../lower/index.ts";
import { configureDefaultClient } from "../pjrt/index.ts";
import { phasesOf, planAt } from "../train/phases.ts";
import { countParameters, type RunPlan } from "../train/plan.ts";
import { listStage, type Stage, type StageListing, stages } from "../train/stepProgram.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { grouped, quantity, showCounts, showMemory, showOperations } from "./inspectText.ts";
import { sizedConfig, sourceHelp } from "./settings.ts";
import { planOf, precisionName } from "./trainingRun.ts";

const ownKeys = ["stage", "op", "layer", "lines", "phase"] as const;
const defaultLines = 40;

export const command: Command = {
  help: `Usage: halfbyte inspect [PRESET] [key=value …] [stage=…] [op=…] [layer=…] [lines=…] [--json]

Shows the training step of any configuration at a stage of its way to the machine, an operation a line with the layer it
belongs to, and counts FLOPs, bytes, contractions by format, conversions and copies. It needs no data and no weights.

${Object.entries(stages)
  .map(([stage, meaning]) => `  ${`stage=${stage}`.padEnd(16)} ${meaning}`)
  .join("\n")}
  op=NAME          only operations of this name, or that call it: op=convert, op=*reduce*, op=__onednn$matmul;
                   op=dot is every contraction, whatever the stage calls it
  layer=NAME       only those of a layer or module, of one pass of it: layer=3, layer=mlp.gate, layer=head,
                   layer=optimizer, layer=3.attn.q:wgrad
  phase=N          the step of the run's Nth precision, where precision_switch_step gives it a second (default 1)
  lines=N          show so many lines (default ${defaultLines}), or lines=all; the counts are of all of them
  --json           the operations and counts as JSON on standard output

\`halfbyte inspect numerics\` shows what a recipe makes of one block of a matrix (its own --help).

The configuration is what \`halfbyte train\` takes: PRESET, config=FILE and its other keys. PRESET is
  ${sourceHelp.replaceAll(/\n +/g, "\n  ")}

Example: halfbyte inspect llama-tiny quantization=nvfp4 stage=grad op=dot layer=0
`,
  topics: { numerics: async () => (await import("./inspectNumerics.ts")).command },
  async run(args) {
    const { settings, flags, words } = parseArguments(args, { maxWords: 1, ownKeys });
    const { stage, lines, filter, phase, keys } = ownSettings(settings);
    const config = await sizedConfig(words[0], keys);
    configureDefaultClient({ nativeKernels: config.compute.nativeKernels });
    const plan = planOfPhase(planOf(config), phase);
    const listing = await listStage(plan, stage);
    const operations = filterOperations(listing.operations, filter);
    if (operations.length === 0) throw nothingFound(listing.operations, filter, stage);
    const text = flags.has("json")
      ? asJson({ plan, stage, listing, operations })
      : asText({ plan, stage, listing, operations }, { config, filter, lines });
    await new Promise((done) => process.stdout.write(text, done));
    return 0;
  },
};

interface Inspection {
  readonly plan: RunPlan;
  readonly stage: Stage;
  readonly listing: StageListing;
  /** Those of the listing that were asked for. */
  readonly operations: readonly ListedOperation[];
}

interface TextOptions {
  readonly config: Config;
  readonly filter: ListingFilter;
  readonly lines: number;
}

function asText({ plan, stage, listing, operations }: Inspection, { config, filter, lines }: TextOptions): string {
  const parameters = countParameters(plan.model);
  const batch = `${plan.microBatches * plan.batchSize} × ${plan.sequenceLength} tokens a step`;
  const asked = Object.entries(filter).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`]));
  return [
    `${grouped(parameters)} parameters (${quantity(4 * parameters, "B")} in FP32), ${precisionOf(plan, config)}, ${batch}`,
    `stage=${stage}: ${stages[stage]}`,
    "",
    ...showOperations(operations, lines),
    "",
    ...showCounts(countOperations(operations), ["operations", ...asked].join(" ")),
    ...(listing.memory ? [showMemory(listing.memory)] : []),
    "",
  ].join("\n");
}

/** The recipe's name, or of a later phase what it was switched to. */
const precisionOf = ({ precision }: RunPlan, config: Config): string =>
  precision.name === precision.recipe.name ? precisionName(config) : precision.name;

function asJson({ plan, stage, listing, operations }: Inspection): string {
  const rows = operations.map((x) => ({
    scope: showScope(x.scope),
    op: x.op,
    text: x.text.trim(),
    repeats: x.repeats,
    flops: flopsOf(x),
    bytes: bytesOf(x),
  }));
  return `${JSON.stringify({
    stage,
    parameters: countParameters(plan.model),
    counts: countOperations(operations),
    ...(listing.memory && { memory: listing.memory }),
    operations: rows,
  })}\n`;
}

/** This command's own keys, and the others, which are the configuration's. @throws UserError */
function ownSettings(settings: Readonly<Record<string, string>>) {
  const keys = Object.fromEntries(Object.entries(settings).filter(([key]) => !ownKeys.includes(key as never)));
  const { stage = "trace", op, layer, lines = `${defaultLines}`, phase = "1" } = settings;
  if (!Object.hasOwn(stages, stage)) {
    const names = Object.keys(stages);
    const near = nearest(stage, names);
    throw new UserError(
      "E_STAGE",
      `stage=${stage}: must be one of ${names.join(", ")}${near ? `; did you mean ${near}?` : ""}`,
    );
  }
  if (lines !== "all" && !/^\d+$/.test(lines)) {
    throw new UserError("E_LINES", `lines=${lines}: must be a whole number, or all`);
  }
  const most = lines === "all" ? Number.POSITIVE_INFINITY : Number(lines);
  return { stage: stage as Stage, lines: most, filter: { op, layer }, phase, keys };
}

/** The plan as it is in its nth phase. @throws UserError */
function planOfPhase(plan: RunPlan, written: string): RunPlan {
  const phases = phasesOf(plan);
  const phase = /^\d+$/.test(written) ? phases[Number(written) - 1] : undefined;
  if (phase !== undefined) return planAt(plan, phase.firstStep);
  const fix = phases.length === 1 ? "1; precision_switch_step would give it a second" : `1 to ${phases.length}`;
  throw new UserError("E_PHASE", `phase=${written}: the phases of this run's precision are ${fix}`);
}

/** Why a filter leaves nothing: no such operation, no such layer, or not both together. */
function nothingFound(all: readonly ListedOperation[], { op, layer }: ListingFilter, stage: Stage): UserError {
  const suggest = (given: string, names: readonly string[]) => {
    const near = nearest(given, names);
    return near === undefined ? `there are ${names.slice(0, 20).join(", ")}` : `did you mean ${near}?`;
  };
  if (op !== undefined && filterOperations(all, { op }).length === 0) {
    const names = [...new Set(all.flatMap((x) => [x.op, ...(x.target ? [x.target] : [])]))].sort();
    return new UserError("E_OP", `op=${op}: stage=${stage} has no such operation; ${suggest(op, names)}`);
  }
  if (layer !== undefined && filterOperations(all, { layer }).length === 0) {
    const [path = "", pass] = layer.split(":");
    const names = layerNames(all);
    const numbers = names.flatMap((name) => /^(?:\d+-)?(\d+)$/.exec(name)?.slice(1).map(Number) ?? []);
    if (/^\d+$/.test(path) && numbers.length > 0) {
      return new UserError("E_LAYER", `layer=${layer}: the layers are 0 to ${Math.max(...numbers)}`);
    }
    const passes = [...new Set(all.map(({ scope }) => scope.pass))].filter((name) => name !== "");
    const fix = names.includes(path) && pass !== undefined ? suggest(pass, passes) : suggest(path, names);
    return new UserError("E_LAYER", `layer=${layer}: stage=${stage} has no such layer; ${fix}`);
  }
  return new UserError("E_FILTER", `stage=${stage} has no op=${op} in layer=${layer}; leave one of them out`);
}
