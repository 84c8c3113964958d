/** Where an axis has its marks. */

export interface Axis {
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly { readonly value: number; readonly label: string }[];
  /** Equal lengths are equal factors. */
  readonly log?: boolean;
}

export interface Range {
  readonly min: number;
  readonly max: number;
}

/** The range of some values; NaN and infinities don't count. Never empty and never of width 0. */
export function rangeOf(values: Iterable<number>): Range {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  if (min > max) return { min: 0, max: 1 };
  // So close that no step between them is a number.
  if (max - min < 1e-290)
    return { min: min - Math.max(0.5, Math.abs(min) / 10), max: max + Math.max(0.5, Math.abs(max) / 10) };
  return { min, max };
}

/** An axis over `range` with about `count` marks at 1, 2 or 5 times a power of ten. */
export function axisOver({ min, max }: Range, count: number): Axis {
  const rough = (max - min) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999)!;
  const ticks = [];
  const digits = Math.max(0, Math.min(20, -Math.floor(Math.log10(step) + 1e-9)));
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i++) {
    ticks.push({ value: i * step, label: tickLabel(i * step, step, digits) });
  }
  // No round number lies between the ends: they are the marks.
  if (ticks.length === 0) for (const value of [min, max]) ticks.push({ value, label: value.toExponential(2) });
  return { min, max, ticks };
}

/** A logarithmic axis over a range above 0: marks at powers of ten, with 2 and 5 times them where there is room for `count`. */
export function logAxisOver(range: Range, count: number): Axis {
  const { min, max } = range;
  const inside: number[][] = [[1, 2, 5], [1]].map((factors) => {
    const marks = [];
    for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power++)
      for (const factor of factors) marks.push(factor * 10 ** power);
    return marks.filter((mark) => mark >= min * 0.999 && mark <= max * 1.001);
  });
  const marks = inside.find(({ length }) => length <= 1.5 * count) ?? inside.at(-1)!;
  // Less than a factor of two or so: marks of an ordinary axis stand closer.
  if (marks.length < 2) return { ...axisOver(range, count), log: true };
  return { min, max, log: true, ticks: marks.map((value) => ({ value, label: logLabel(value) })) };
}

function logLabel(value: number): string {
  return value >= 1e-3 && value < 1e7
    ? tickLabel(value, 1, value < 1 ? Math.ceil(-Math.log10(value)) : 0)
    : value.toExponential(0);
}

function tickLabel(value: number, step: number, digits: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e7 || step < 1e-6) return value.toExponential(2);
  return value.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",");
}
