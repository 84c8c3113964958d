/** What a finished run comes to: its numbers, and the chart of its loss. */
import {
  type Chart,
  latestByStep,
  meanSourceLosses,
  modelFlopsUtilization,
  type Point,
  type RunEvent,
  type RunSummary,
  type SourceLoss,
  type StepRecord,
  smooth,
  type Timed,
} from "../metrics/index.ts";
import type { RunEvaluation } from "./runEvaluator.ts";
import { newestSourceNames, withNewestNames } from "./sourceNames.ts";

export interface SummaryInput {
  readonly name: string;
  /** Of this process, in order. */
  readonly steps: readonly StepRecord[];
  /** Names of a mixture's sources, in their order. */
  readonly sources: readonly string[];
  readonly evaluation: RunEvaluation | undefined;
  readonly stepsByPrecision: Readonly<Record<string, number>>;
  readonly flopsPerToken: number;
  readonly peakFlopsPerSecond: number;
  readonly seconds: number;
}

/** The speed is the median step's, so that a pause of the machine does not count. */
export function summarise(input: SummaryInput): RunSummary {
  const { name, steps, sources, evaluation, stepsByPrecision, flopsPerToken, peakFlopsPerSecond, seconds } = input;
  // The first step may have warmed something up.
  const steady = steps.length > 1 ? steps.slice(1) : steps;
  const tokensPerSecond = median(steady.map((step) => step.tokensPerSecond));
  return {
    name,
    seconds,
    stepsByPrecision,
    ...(evaluation && {
      validationLoss: evaluation.loss,
      bitsPerByte: evaluation.bitsPerByte,
      validationPrecision: evaluation.precision,
      ...(evaluation.others && {
        otherValidationLosses: Object.fromEntries(evaluation.others.map(({ precision, loss }) => [precision, loss])),
      }),
    }),
    ...trainingLosses(steps, sources),
    ...(tokensPerSecond !== undefined && {
      tokensPerSecond,
      mfu: modelFlopsUtilization(tokensPerSecond * flopsPerToken, peakFlopsPerSecond),
    }),
  };
}

/**
 * The mean training loss over the last steps, and that of each source over its own.
 * @param names of all sources, in their order
 */
export function trainingLosses(
  steps: readonly StepLosses[],
  names: readonly string[],
): Pick<RunSummary, "trainingLoss" | "sourceTrainingLosses"> {
  const last = lastOf(steps);
  const sources = [...stepsBySource(steps, names).values()].flatMap((records) =>
    meanSourceLosses(lastOf(records).map((record) => ({ sources: [record] }))),
  );
  return {
    ...(last.length > 0 && { trainingLoss: last.reduce((sum, { loss }) => sum + loss, 0) / last.length }),
    ...(sources.length > 0 && {
      sourceTrainingLosses: Object.fromEntries(sources.map(({ source, loss }) => [source, loss])),
    }),
  };
}

type StepLosses = Pick<StepRecord, "step" | "loss" | "sources">;

/** The last twentieth of records, of which those that are not finite do not count. */
function lastOf<R extends { readonly loss: number }>(records: readonly R[]): R[] {
  return records.slice(-Math.max(1, Math.round(records.length / 20))).filter(({ loss }) => Number.isFinite(loss));
}

/** What steps tell of each source, each with its step: those of a source are fewer where not every step has tokens of it. */
function stepsBySource(steps: readonly StepLosses[], names: readonly string[]) {
  const bySource = new Map<string, (SourceLoss & { readonly step: number })[]>(names.map((name) => [name, []]));
  for (const { step, sources = [] } of steps) {
    for (const record of sources) {
      const known = bySource.get(record.source);
      if (known) known.push({ ...record, step });
      else bySource.set(record.source, [{ ...record, step }]);
    }
  }
  for (const [name, records] of bySource) if (records.length === 0) bySource.delete(name);
  return bySource;
}

export function median(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1]! + sorted[middle]!) / 2 || undefined;
}

export interface RunEvents {
  readonly name: string;
  readonly events: readonly Timed<RunEvent>[];
}

/** A run's events as they are shown: its sources by their newest names. */
export const shownRun = (name: string, events: readonly Timed<RunEvent>[]): RunEvents => ({
  name,
  events: withNewestNames(events),
});

/** The loss of runs over their steps: the training loss smoothed, and that of each source; validation as dots where there are few. */
export function lossChart(runs: readonly RunEvents[], title: string): Chart {
  const label = (name: string, what: string) => (runs.length > 1 ? `${name} ${what}` : what);
  const smoothed = (records: readonly Omit<StepLosses, "sources">[]) =>
    smooth(records.map(pointOf), Math.max(1, Math.round(records.length / 40)));
  const training = runs.flatMap(({ name, events }) => {
    const steps = latestByStep(events, "step");
    const sources = [...stepsBySource(steps, newestSourceNames(events).training)].map(([source, records]) => ({
      name: label(name, `training on ${source}`),
      points: smoothed(records),
    }));
    return [{ name: label(name, "training"), points: smoothed(steps) }, ...sources];
  });
  const validation = runs
    .map(({ name, events }) => ({ name: label(name, "validation"), points: latestByStep(events, "eval").map(pointOf) }))
    .filter(({ points }) => points.length > 0)
    .map((series) => ({ ...series, markers: series.points.length <= 40 }));
  return { title, xLabel: "step", yLabel: "loss", series: [...training, ...validation] };
}

function pointOf({ step, loss }: Omit<StepLosses, "sources">): Point {
  return { x: step, y: loss };
}
