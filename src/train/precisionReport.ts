/** What each GEMM of a run computes in, phase by phase, with the share of the FLOPs in each format. */
import { flopsPerToken } from "../metrics/index.ts";
import {
  formatOf,
  type GemmName,
  gemmNames,
  type PrecisionPlan,
  type PrecisionRow,
  precisionTable,
  type TableOptions,
  whyEmulated,
} from "../quant/index.ts";
import { nameOfEvaluation } from "./evalPrecision.ts";
import { nameOfPrecision, phasesOf } from "./phases.ts";
import { linearShapesOf, type RunPlan } from "./plan.ts";
import { shortModules } from "./precisionSummary.ts";

export interface FormatShare {
  /** "nvfp4", "bf16" */
  readonly format: string;
  /** Of the FLOPs of the linear layers. */
  readonly ofLinear: number;
  /** Of the FLOPs of all matrix products of a step; attention and the head compute in the model's dtype. */
  readonly ofAll: number;
}

export interface ReportedRow extends PrecisionRow {
  /** The name of the format: "nvfp4", "bf16". */
  readonly name: string;
  /** Why it is emulated; empty where it is native. */
  readonly why: readonly string[];
}

export interface PhaseReport {
  readonly name: string;
  readonly firstStep: number;
  readonly lastStep: number;
  readonly shares: readonly FormatShare[];
  readonly rows: readonly ReportedRow[];
}

export interface PrecisionReport {
  readonly recipe: string;
  readonly policy: string;
  readonly numLayers: number;
  readonly modules: readonly string[];
  /** Phases without a step are left out. */
  readonly phases: readonly PhaseReport[];
  /** What validation computes in: "same" is training's precision at that step. */
  readonly validation: readonly string[];
}

export function precisionReport(plan: RunPlan): PrecisionReport {
  const { precision, evalPrecisions = ["same"], steps } = plan;
  const phases = phasesOf(plan);
  return {
    recipe: nameOfPrecision(precision, plan),
    policy: precision.policy,
    numLayers: precision.numLayers,
    modules: tableOptions(plan).modules.map(({ module }) => module),
    phases: phases
      .map((phase, i) => ({ phase, lastStep: Math.min(steps, (phases[i + 1]?.firstStep ?? steps + 1) - 1) }))
      .filter(({ phase, lastStep }) => phase.firstStep <= lastStep)
      .map(({ phase: { firstStep, precision }, lastStep }) => ({
        name: nameOfPrecision(precision, plan),
        firstStep,
        lastStep,
        shares: sharesOf(plan, precision),
        rows: rowsOf(plan, precision),
      })),
    validation: evalPrecisions.map((asked) => (asked === "same" ? "same" : nameOfEvaluation(asked, plan))),
  };
}

const tableOptions = ({ model, batchSize, sequenceLength }: RunPlan): TableOptions => ({
  modules: linearShapesOf(model),
  tokens: batchSize * sequenceLength,
  dtype: model.dtype,
});

function rowsOf(plan: RunPlan, precision: PrecisionPlan): ReportedRow[] {
  return precisionTable(precision, tableOptions(plan)).map((row) => {
    const spec = precision.precision(row.module, row.firstLayer)[row.gemm];
    return { ...row, name: formatOf(spec, plan.model.dtype), why: whyEmulated(spec) };
  });
}

/** The largest first. Each GEMM of a linear layer takes 2·tokens·in·out FLOPs. */
function sharesOf(plan: RunPlan, precision: PrecisionPlan): FormatShare[] {
  const { model, sequenceLength } = plan;
  const flops = new Map<string, number>();
  for (const row of rowsOf(plan, precision)) {
    const { inDim, outDim } = linearShapesOf(model).find(({ module }) => module === row.module)!;
    const layers = row.lastLayer - row.firstLayer + 1;
    flops.set(row.name, (flops.get(row.name) ?? 0) + 2 * layers * inDim * outDim);
  }
  const linear = [...flops.values()].reduce((a, b) => a + b, 0);
  const all = flopsPerToken(model, sequenceLength);
  const plainName = formatOf(
    { rotation: "none", left: { element: "plain" }, right: { element: "plain" } },
    model.dtype,
  );
  const others = all - linear;
  if (!flops.has(plainName)) flops.set(plainName, 0);
  return [...flops]
    .map(([format, own]) => ({
      format,
      ofLinear: own / linear,
      ofAll: (own + (format === plainName ? others : 0)) / all,
    }))
    .sort((a, b) => b.ofLinear - a.ofLinear);
}

/** Rows that say the same, of adjacent layers and of any modules, as one: "0–4", "attn.q k v o". */
export interface GroupedRow extends Omit<ReportedRow, "firstLayer" | "lastLayer" | "module"> {
  readonly layers: string;
  readonly modules: string;
}

export function groupedRows(rows: readonly ReportedRow[]): GroupedRow[] {
  const groups = new Map<string, { row: ReportedRow; modules: string[] }>();
  for (const row of withLayersJoined(rows)) {
    const { module, ...same } = row;
    const key = JSON.stringify(same);
    const group = groups.get(key) ?? { row, modules: [] };
    group.modules.push(module);
    groups.set(key, group);
  }
  return [...groups.values()].map(({ row: { firstLayer, lastLayer, module: _, ...rest }, modules }) => ({
    ...rest,
    layers: firstLayer === lastLayer ? `${firstLayer}` : `${firstLayer}–${lastLayer}`,
    modules: shortModules(modules),
  }));
}

function withLayersJoined(rows: readonly ReportedRow[]): ReportedRow[] {
  const joined = new Map<string, ReportedRow[]>();
  for (const row of rows) {
    const { firstLayer: _, lastLayer, ...same } = row;
    const key = JSON.stringify(same);
    const before = joined.get(key) ?? [];
    const last = before.at(-1);
    if (last?.lastLayer === row.firstLayer - 1) before[before.length - 1] = { ...last, lastLayer };
    else before.push(row);
    joined.set(key, before);
  }
  return [...joined.values()].flat();
}

/** The format of each GEMM of a module in a layer, in the order of `gemmNames`. */
export function cellOf({ rows }: PhaseReport, module: string, layer: number): string[] {
  const isHere = (gemm: GemmName) => (row: ReportedRow) =>
    row.module === module && row.gemm === gemm && row.firstLayer <= layer && layer <= row.lastLayer;
  return gemmNames.map((gemm) => rows.find(isHere(gemm))!.name);
}
