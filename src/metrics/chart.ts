/** What a line chart shows, whatever it is drawn with. */
import { type Axis, axisOver, logAxisOver, type Range, rangeOf } from "./ticks.ts";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Series {
  readonly name: string;
  /** In the order of x. A point without a finite y leaves a gap. */
  readonly points: readonly Point[];
  /** Dots at the points, for few of them. Default: a line alone. */
  readonly markers?: boolean;
}

export interface Chart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly Series[];
  /** Shown part of the y axis; default: all. Points outside are drawn at its edge. */
  readonly yRange?: Range;
  /** Both axes are logarithmic: a power law is a line. All values must be above 0. */
  readonly log?: boolean;
}

export interface ChartAxes {
  readonly x: Axis;
  readonly y: Axis;
}

/** Axes that hold all points. @param counts about how many marks fit */
export function chartAxes(chart: Chart, counts: { readonly x: number; readonly y: number }): ChartAxes {
  const points = chart.series.flatMap(({ points }) => points.filter(({ y }) => Number.isFinite(y)));
  if (chart.log) return logAxes(points, counts, chart.yRange);
  const y = chart.yRange ?? rangeOf(points.map((point) => point.y));
  const margin = chart.yRange ? 0 : (y.max - y.min) * 0.04;
  return {
    x: axisOver(rangeOf(points.map((point) => point.x)), counts.x),
    y: axisOver({ min: y.min - margin, max: y.max + margin }, counts.y),
  };
}

function logAxes(points: readonly Point[], counts: { readonly x: number; readonly y: number }, yRange?: Range) {
  const spanOf = (values: readonly number[], room: number): Range => {
    const [min, max] = [Math.min(...values), Math.max(...values)];
    const factor = min === max ? 1.5 : (max / min) ** room;
    return { min: min / factor, max: max * factor };
  };
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  return { x: logAxisOver(spanOf(xs, 0), counts.x), y: logAxisOver(yRange ?? spanOf(ys, 0.04), counts.y) };
}

/** Stretches of points without a gap. */
export function unbroken(points: readonly Point[]): Point[][] {
  const stretches: Point[][] = [[]];
  for (const point of points) {
    if (Number.isFinite(point.y)) stretches.at(-1)!.push(point);
    else if (stretches.at(-1)!.length > 0) stretches.push([]);
  }
  return stretches.filter((stretch) => stretch.length > 0);
}

/** 0..1 along an axis; what lies outside is at its edge. */
export function along({ min, max, log }: Pick<Axis, "min" | "max" | "log">, value: number): number {
  const at = log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min);
  return Math.min(1, Math.max(0, at));
}

/**
 * A smoothed series: the mean over the last `window` points, so that a noisy training loss can be read.
 */
export function smooth(points: readonly Point[], window: number): Point[] {
  return points.map(({ x }, i) => {
    const recent = points.slice(Math.max(0, i - window + 1), i + 1).filter(({ y }) => Number.isFinite(y));
    return { x, y: recent.reduce((sum, { y }) => sum + y, 0) / recent.length };
  });
}
