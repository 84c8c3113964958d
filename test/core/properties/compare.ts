/** When a compiled array agrees with an interpreted one. */
import { maxFinite } from "../../../src/core/codecs.ts";
import { type DType, dtypeInfo, type HostArray, sameShape, showSpec, toValues } from "../../../src/core/index.ts";
import { isDenormal } from "./values.ts";

/** See the constants and functions at the end of the file. −0 is not 0; NaN is not a number. */
export type Rule =
  | { readonly kind: "bits" }
  | { readonly kind: "exact" }
  | { readonly kind: "ulps"; readonly ulps: number }
  | { readonly kind: "sum"; readonly relative: number; readonly ulps: number };

interface FloatLayout {
  readonly mantissaBits: number;
  readonly minExponent: number;
}

const layouts: Partial<Record<DType, FloatLayout>> = {
  float64: { mantissaBits: 52, minExponent: -1022 },
  float32: { mantissaBits: 23, minExponent: -126 },
  bfloat16: { mantissaBits: 7, minExponent: -126 },
  float16: { mantissaBits: 10, minExponent: -14 },
  float8_e4m3fn: { mantissaBits: 3, minExponent: -6 },
  float8_e5m2: { mantissaBits: 2, minExponent: -14 },
};

/** Distance in units in the last place of `wanted`; values beyond the largest finite one count as the next number. */
function ulpsBetween(dtype: DType, got: number, wanted: number): number {
  const { mantissaBits, minExponent } = layouts[dtype]!;
  const beyond = maxFinite(dtype) * (1 + 2 ** -(mantissaBits + 1));
  const [a, b] = [got, wanted].map((x) => (Math.abs(x) === Infinity ? Math.sign(x) * beyond : x)) as [number, number];
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(b) || 0)), minExponent);
  return Math.abs(a / 2 ** exponent - b / 2 ** exponent) * 2 ** mantissaBits;
}

interface Compared {
  readonly rule: Rule;
  readonly dtype: DType;
  /** Largest finite magnitude of the array. */
  readonly scale: number;
}

function closeEnough({ rule, dtype, scale }: Compared, got: number, wanted: number, denormalInput: boolean): boolean {
  if (Object.is(got, wanted)) return true;
  if (rule.kind === "bits" || Number.isNaN(got) || Number.isNaN(wanted)) return false;
  if (isTiny(dtype, got) && isTiny(dtype, wanted)) {
    // One of them flushed; zeros of different signs are equal only where they come from flushed inputs, or from sums.
    return got !== 0 || wanted !== 0 || denormalInput || rule.kind === "sum";
  }
  if (rule.kind === "exact" || layouts[dtype] === undefined) return false;
  const near = ulpsBetween(dtype, got, wanted) <= rule.ulps;
  return rule.kind === "sum" ? near || Math.abs(got - wanted) <= rule.relative * scale : near;
}

/** Zero, or so small that one or the other of two close results is flushed to it. */
const isTiny = (dtype: DType, x: number): boolean => x === 0 || isDenormal(dtype, x * (1 - 2 ** -5));

export interface Comparison {
  readonly got: HostArray;
  /** The interpreter's answer, and its answer for inputs whose denormal numbers are zeros. */
  readonly accepted: readonly [HostArray, HostArray];
  readonly inputs: readonly HostArray[];
}

/** Flat indices where the compiled array differs from the accepted ones, or a sentence where shapes or dtypes do. */
export function mismatches(rule: Rule, { got, accepted, inputs }: Comparison): number[] | string {
  const { dtype } = got;
  const [wanted] = accepted;
  if (dtype !== wanted.dtype || !sameShape(got.shape, wanted.shape))
    return `compiled ${showSpec(got)}, interpreted ${showSpec(wanted)}`;
  const values = toValues(got).data;
  const answers = accepted.map((host) => toValues(host).data);
  const scale = Array.from(answers[0]!).reduce((m, x) => (Number.isFinite(x) ? Math.max(m, Math.abs(x)) : m), 0);
  const denormal = denormalInputs(inputs, values.length);
  const wrong: number[] = [];
  values.forEach((x, i) => {
    if (!answers.some((answer) => closeEnough({ rule, dtype, scale }, x, answer[i]!, denormal(i)))) wrong.push(i);
  });
  return wrong;
}

/** Whether result i comes from a denormal number: from the inputs at i, or from anywhere where lengths differ. */
function denormalInputs(inputs: readonly HostArray[], length: number): (index: number) => boolean {
  const lists = inputs.map((host) => ({ dtype: host.dtype, data: toValues(host).data }));
  if (lists.every(({ data }) => data.length === length)) {
    return (i) => lists.some(({ dtype, data }) => isDenormal(dtype, data[i]!));
  }
  const any = lists.some(({ dtype, data }) => data.some((x: number) => isDenormal(dtype, x)));
  return () => any;
}

/** The same value, whatever it is: for operations that move elements. NaN is NaN whatever its bits. */
export const bits: Rule = { kind: "bits" };

/** The correctly rounded result, but for what flushing denormal numbers does. */
export const exact: Rule = { kind: "exact" };

/** The exact result but for the sign of a zero, which a sum with 0 loses and XLA may not take. */
export const exactButZeros: Rule = { kind: "sum", relative: 0, ulps: 0 };

/** For functions that are not correctly rounded. */
export const within = (ulps: number): Rule => ({ kind: "ulps", ulps });

/** For sums in any order: narrow floats are rounded once from it, to one side or the other. */
export const sums = (dtype: DType): Rule =>
  dtypeInfo(dtype).kind !== "float" ? exact : { kind: "sum", relative: 1e-5, ulps: dtypeInfo(dtype).bits < 32 ? 1 : 0 };
