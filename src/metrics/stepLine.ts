/** The console line of a step, in MaxText's terms, so that existing log readers read it. */
import { formatDuration } from "./duration.ts";

export interface StepRecord {
  /** From 1. */
  readonly step: number;
  readonly seconds: number;
  /** Model TFLOP/s of one device. */
  readonly tflopsPerSecond: number;
  /** Of one device. */
  readonly tokensPerSecond: number;
  /** Targets that count: the loss's denominator. */
  readonly validTokens: number;
  /** Nats per token. */
  readonly loss: number;
  /** Global norm before clipping. */
  readonly gradNorm: number;
  readonly learningRate: number;
  /** What the loss was multiplied by on its way backward; absent where it is not. */
  readonly lossScale?: number;
  /** Of each source of a mixture that the step has tokens of. */
  readonly sources?: readonly SourceLoss[];
}

export interface SourceLoss {
  readonly source: string;
  /** Nats per token. */
  readonly loss: number;
  readonly validTokens: number;
}

type Speed = "tflopsPerSecond" | "tokensPerSecond";

/** What is logged of a step that processed `validTokens` in `seconds`. */
export function stepRecord(measured: Omit<StepRecord, Speed>, flopsPerToken: number, devices = 1): StepRecord {
  const tokensPerSecond = measured.validTokens / measured.seconds / devices;
  return { ...measured, tokensPerSecond, tflopsPerSecond: (tokensPerSecond * flopsPerToken) / 1e12 };
}

/** @param secondsLeft of the whole run; left out where unknown. */
export function stepLine(record: StepRecord, secondsLeft?: number): string {
  const parts = [
    `completed step: ${record.step}`,
    `seconds: ${record.seconds.toFixed(3)}`,
    `TFLOP/s/device: ${record.tflopsPerSecond.toFixed(3)}`,
    `Tokens/s/device: ${record.tokensPerSecond.toFixed(3)}`,
    `total_weights: ${record.validTokens}`,
    `loss: ${record.loss.toFixed(3)}`,
    `grad_norm: ${record.gradNorm.toFixed(3)}`,
    `lr: ${record.learningRate.toExponential(3)}`,
  ];
  if (record.lossScale !== undefined) parts.push(`loss_scale: ${record.lossScale}`);
  for (const { source, loss } of record.sources ?? []) parts.push(`loss of ${source}: ${loss.toFixed(3)}`);
  if (secondsLeft !== undefined && Number.isFinite(secondsLeft)) parts.push(`left: ${formatDuration(secondsLeft)}`);
  return parts.join(", ");
}

/**
 * The loss of each source over several steps: of all its tokens there, so that each counts once.
 * @param names of all sources, in their order; a step may have tokens of some alone
 */
export function meanSourceLosses(
  records: readonly Pick<StepRecord, "sources">[],
  names: readonly string[] = [],
): SourceLoss[] {
  const sums = new Map(names.map((name) => [name, { nats: 0, validTokens: 0 }]));
  for (const { source, loss, validTokens } of records.flatMap(({ sources }) => sources ?? [])) {
    const sum = sums.get(source) ?? { nats: 0, validTokens: 0 };
    sums.set(source, { nats: sum.nats + loss * validTokens, validTokens: sum.validTokens + validTokens });
  }
  return [...sums]
    .filter(([, { validTokens }]) => validTokens > 0)
    .map(([source, { nats, validTokens }]) => ({ source, loss: nats / validTokens, validTokens }));
}

/** A validation in another precision than that of the record's loss. */
export interface OtherEvalRecord {
  readonly precision: string;
  readonly loss: number;
  readonly bitsPerByte: number;
}

export interface EvalRecord {
  readonly step: number;
  /** Nats per token over all targets. */
  readonly loss: number;
  readonly bitsPerByte: number;
  readonly validTokens: number;
  readonly seconds: number;
  /** What it was computed in. Absent in older runs. */
  readonly precision?: string;
  /** Set: that is what training computes in after the step. */
  readonly asTrained?: boolean;
  readonly others?: readonly OtherEvalRecord[];
  /** Of each source of a mixture. */
  readonly sources?: readonly SourceEvalRecord[];
  /** How often training has gone through each of them. */
  readonly epochs?: readonly { readonly source: string; readonly epochs: number }[];
}

export interface SourceEvalRecord extends SourceLoss {
  readonly bitsPerByte: number;
}

export function evalLine(record: EvalRecord): string {
  return [
    `eval after step: ${record.step}`,
    `loss: ${record.loss.toFixed(4)}`,
    `perplexity: ${Math.exp(record.loss).toFixed(3)}`,
    `bits_per_byte: ${record.bitsPerByte.toFixed(4)}`,
    `total_weights: ${record.validTokens}`,
    `seconds: ${record.seconds.toFixed(3)}`,
    ...(record.precision === undefined ? [] : [`precision: ${record.precision}`]),
    ...(record.others ?? []).map(({ precision, loss }) => `loss in ${precision}: ${loss.toFixed(4)}`),
    ...(record.sources ?? []).map(({ source, loss }) => `loss of ${source}: ${loss.toFixed(4)}`),
    ...(record.epochs ?? []).map(({ source, epochs }) => `epochs of ${source}: ${epochs.toFixed(2)}`),
  ].join(", ");
}
