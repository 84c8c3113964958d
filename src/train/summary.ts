/** What a finished run comes to: its numbers, and the chart of its loss. */
import {
  type Chart,
  latestByStep,
  modelFlopsUtilization,
  type Point,
  type RunEvent,
  type RunSummary,
  type StepRecord,
  smooth,
  type Timed,
} from "../metrics/index.ts";
import type { RunEvaluation } from "./runEvaluator.ts";

export interface SummaryInput {
  readonly name: string;
  /** Of this process, in order. */
  readonly steps: readonly StepRecord[];
  readonly evaluation: RunEvaluation | undefined;
  readonly stepsByPrecision: Readonly<Record<string, number>>;
  readonly flopsPerToken: number;
  readonly peakFlopsPerSecond: number;
  readonly seconds: number;
}

/** The speed is the median step's, so that a pause of the machine does not count. */
export function summarise(input: SummaryInput): RunSummary {
  const { name, steps, evaluation, stepsByPrecision, flopsPerToken, peakFlopsPerSecond, seconds } = input;
  // The first step may have warmed something up.
  const steady = steps.length > 1 ? steps.slice(1) : steps;
  const tokensPerSecond = median(steady.map((step) => step.tokensPerSecond));
  const last = steps.slice(-Math.max(1, Math.round(steps.length / 20))).filter(({ loss }) => Number.isFinite(loss));
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
    ...(last.length > 0 && { trainingLoss: last.reduce((sum, { loss }) => sum + loss, 0) / last.length }),
    ...(tokensPerSecond !== undefined && {
      tokensPerSecond,
      mfu: modelFlopsUtilization(tokensPerSecond * flopsPerToken, peakFlopsPerSecond),
    }),
  };
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

/** The loss of runs over their steps: the training loss smoothed, validation as dots where there are few. */
export function lossChart(runs: readonly RunEvents[], title: string): Chart {
  const label = (name: string, what: string) => (runs.length > 1 ? `${name} ${what}` : what);
  const training = runs.map(({ name, events }) => {
    const points = latestByStep(events, "step").map(pointOf);
    return { name: label(name, "training"), points: smooth(points, Math.max(1, Math.round(points.length / 40))) };
  });
  const validation = runs
    .map(({ name, events }) => ({ name: label(name, "validation"), points: latestByStep(events, "eval").map(pointOf) }))
    .filter(({ points }) => points.length > 0)
    .map((series) => ({ ...series, markers: series.points.length <= 40 }));
  return { title, xLabel: "step", yLabel: "loss", series: [...training, ...validation] };
}

function pointOf({ step, loss }: { readonly step: number; readonly loss: number }): Point {
  return { x: step, y: loss };
}
