/** Where an axis has its marks. */

export interface Axis {
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly { readonly value: number; readonly label: string }[];
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

function tickLabel(value: number, step: number, digits: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e7 || step < 1e-6) return value.toExponential(2);
  return value.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",");
}
