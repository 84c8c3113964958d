/**
 * What a line of events.jsonl must hold to be an event of its type: what is read of it is then what it is taken for. Written by
 * hand, for there are as many lines as steps.
 */
import type { RunEvent } from "./events.ts";

type Check = (value: unknown) => boolean;

/** NaN and infinities too. */
const number: Check = (value) => typeof value === "number";
const count: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const text: Check = (value) => typeof value === "string";
const yesOrNo: Check = (value) => typeof value === "boolean";
const record: Check = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const maybe =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const mapOf =
  (check: Check): Check =>
  (value) =>
    record(value) && Object.values(value as object).every(check);

type Fields = Readonly<Record<string, Check>>;
/** Fields that are not named may be anything. */
const having =
  (fields: Fields): Check =>
  (value) =>
    record(value) && hasFields(value as object, fields);

function hasFields(value: object, fields: Fields): boolean {
  for (const name in fields) if (!fields[name]!((value as Record<string, unknown>)[name])) return false;
  return true;
}

const precision = listOf(mapOf(text));
const losses = { loss: number, bitsPerByte: number };
const site = {
  ...{ layer: count, module: text, tensor: text, amax: number, format: maybe(text) },
  ...{ snrDb: maybe(number), underflowPercent: maybe(number), saturatedPercent: maybe(number) },
  ...{ zeroBlocksPercent: maybe(number), scaleUnderflowPercent: maybe(number), tensorScale: maybe(number) },
};

const checks: Readonly<Record<RunEvent["type"], Fields>> = {
  start: {
    ...{ step: count, config: record, parameters: number, flopsPerToken: number },
    ...{ peakFlopsPerSecond: maybe(number), precision: maybe(precision) },
  },
  compile: { program: text, seconds: number, memory: mapOf(number) },
  precision: { step: count, name: text, precision },
  step: {
    ...{ step: count, seconds: number, tflopsPerSecond: number, tokensPerSecond: number, validTokens: number },
    ...{ loss: number, gradNorm: number, learningRate: number, lossScale: maybe(number) },
    sources: maybe(listOf(having({ source: text, loss: number, validTokens: number }))),
  },
  eval: {
    ...{ step: count, ...losses, validTokens: count, seconds: number, precision: maybe(text) },
    asTrained: maybe(yesOrNo),
    others: maybe(listOf(having({ precision: text, ...losses }))),
    sources: maybe(listOf(having({ source: text, ...losses, validTokens: number }))),
    epochs: maybe(listOf(having({ source: text, epochs: number }))),
  },
  numerics: {
    ...{ step: count, seconds: number, sites: listOf(having(site)), lossScale: maybe(number) },
    gradients: maybe(listOf(having({ tensor: text, cosine: number, normRatio: number }))),
    notFinite: maybe(listOf(text)),
  },
  skip: { step: count, reason: text, skippedInARow: count, tensors: listOf(text), message: text },
  checkpoint: { step: count, path: text, seconds: number, blockedSeconds: maybe(number) },
  sample: { step: count, prompt: text, text },
  summary: { step: count, name: text, peakRssBytes: number },
  note: { message: text },
  end: { step: count, reason: text, seconds: number, message: maybe(text) },
};

/** Whether a value is an event, of a type that is known or of one that is not. */
export function isEvent(value: unknown): boolean {
  if (!record(value)) return false;
  const { type, time } = value as { type?: unknown; time?: unknown };
  if (typeof type !== "string" || typeof time !== "string") return false;
  return !Object.hasOwn(checks, type) || hasFields(value as object, checks[type as RunEvent["type"]]);
}
