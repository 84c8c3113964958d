/** Whether a model computes the same after its conversion: logits of fixed tokens, before and after. */
import { HalfbyteError } from "../base/errors.ts";
import { referenceLogits } from "./referenceLogits.ts";
import type { ModelSource, SourceTensors } from "./source.ts";

/** How logits after a conversion compare with those before. */
export interface Verification {
  readonly tokens: number;
  /** Largest difference of two logits, and how widely the logits before spread (their standard deviation). */
  readonly maxDifference: number;
  readonly deviation: number;
  /** What maxDifference may be. */
  readonly allowed: number;
  /** Positions whose likeliest next token is the same. */
  readonly sameBest: number;
}

const numTokens = 12;

/** Fixed tokens, spread over the vocabulary. */
const fixedTokens = (vocabSize: number): number[] =>
  Array.from({ length: numTokens }, (_, i) => (7919 * i + 13) % vocabSize);

/** Of the logits' deviation: rounding alone stays far below, and rows in a wrong order lie far above. */
const allowedShare = { exact: 1e-4, rounded: 0.25 };

/**
 * @param exact whether no value was rounded. @param onLayer called often @throws to stop
 * @throws HalfbyteError (E_VERIFY) where logits differ by more than rounding explains
 */
export async function verifyConversion(
  source: ModelSource,
  after: SourceTensors,
  { exact, onLayer = () => {} }: { readonly exact: boolean; readonly onLayer?: () => void },
): Promise<Verification> {
  const { config } = source.config;
  const tokens = fixedTokens(config.vocabSize);
  const options = { config, tokens, paired: source.paired !== undefined, onLayer };
  const before = await referenceLogits(source.paired ?? source.tensors, options);
  const converted = await referenceLogits(after, { ...options, paired: false });
  const result = compare(before, converted, exact);
  if (result.maxDifference <= result.allowed) return result;
  throw new HalfbyteError(
    "E_VERIFY",
    `logits of ${numTokens} tokens differ by ${result.maxDifference.toPrecision(3)} after the conversion, more than the ${result.allowed.toPrecision(3)} that rounding explains; nothing was written`,
  );
}

function compare(before: readonly Float64Array[], after: readonly Float64Array[], exact: boolean): Verification {
  let [maxDifference, total, squares, count, sameBest] = [0, 0, 0, 0, 0];
  for (const [t, row] of before.entries()) {
    const other = after[t]!;
    for (const [i, value] of row.entries()) {
      // NaN is no agreement.
      const difference = Math.abs(value - other[i]!);
      maxDifference = Math.max(difference, maxDifference);
      total += value;
      squares += value * value;
    }
    count += row.length;
    if (bestOf(row) === bestOf(other)) sameBest++;
  }
  const deviation = Math.sqrt(Math.max(0, squares / count - (total / count) ** 2));
  const allowed = deviation * (exact ? allowedShare.exact : allowedShare.rounded);
  return { tokens: before.length, maxDifference, deviation, allowed, sameBest };
}

const bestOf = (row: Float64Array): number => row.reduce((best, value, i) => (value > row[best]! ? i : best), 0);
