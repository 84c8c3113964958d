/** Tables and charts of cost curves, and where a neighbour costs too much. */
import { cpus } from "node:os";
import { flopsPerToken, svgChart, textTable } from "../src/metrics/index.ts";
import { type Bar, svgBars } from "./barChart.ts";
import { type Curve, type CurvePoint, labelOf } from "./curveDefinitions.ts";
import type { PointCost } from "./curvePoint.ts";
import { configOf } from "./workload.ts";

/** Points that differ in x alone. */
export interface CurveSeries {
  readonly name: string;
  readonly points: readonly MeasuredPoint[];
}

export interface MeasuredPoint extends CurvePoint {
  readonly cost: PointCost;
}

export interface MeasuredCurve {
  readonly curve: Curve;
  readonly series: readonly CurveSeries[];
}

/** A neighbour that costs more than this per unit of work is a cliff. */
export const cliffFactor = 1.5;

/** The cost of each point by its work, over that of the point before; undefined for the first. */
export function neighbourRatios({ measure }: Curve, { points }: CurveSeries, of = measure?.of): (number | undefined)[] {
  const perWork = points.map(({ cost, sizes }) => {
    const value = of?.(cost);
    return value === undefined ? undefined : value / measure!.work(sizes);
  });
  return perWork.map((value, i) => {
    const before = perWork[i - 1];
    return value === undefined || before === undefined ? undefined : value / before;
  });
}

/** One line for each cliff, with what it is in CPU time: less, where the machine was busy or cores were idle. */
export function cliffsOf({ curve, series }: MeasuredCurve): string[] {
  const { name, measure } = curve;
  return series.flatMap((each) => {
    const cpuRatios = measure?.cpuOf && neighbourRatios(curve, each, measure.cpuOf);
    return neighbourRatios(curve, each).flatMap((ratio, i) => {
      if (ratio === undefined || ratio <= cliffFactor) return [];
      const where = `${name}${each.name && ` (${each.name})`}: from ${each.points[i - 1]!.x} to ${each.points[i]!.x}`;
      const cpu = cpuRatios?.[i] === undefined ? "" : `, ${cpuRatios[i].toFixed(2)} × in CPU time`;
      return [`${where} a ${measure!.unit} costs ${ratio.toFixed(2)} × as much${cpu}`];
    });
  });
}

type Column = readonly [head: string, cell: (point: MeasuredPoint) => string | undefined];

const megabytes = (bytes?: number) => (bytes === undefined ? undefined : (bytes / 2 ** 20).toFixed(1));
const seconds = (value?: number) => value?.toFixed(value < 0.1 ? 4 : 3);
const byStep = (value: number, { cost }: MeasuredPoint) =>
  cost.seconds === undefined ? undefined : value / cost.seconds;
const tokens = ({ sizes }: MeasuredPoint) => sizes.batch * sizes.seq;

/** Those that hold nothing in a curve are left out. */
const columns: readonly Column[] = [
  ["s a step", ({ cost }) => seconds(cost.seconds)],
  ["CPU s", ({ cost }) => seconds(cost.cpuSeconds)],
  ["tokens/s", (point) => byStep(tokens(point), point)?.toFixed(0)],
  ["TFLOP/s", (point) => byStep((tokens(point) * flopsOf(point)) / 1e12, point)?.toFixed(3)],
  ["grown MB", ({ cost }) => megabytes(cost.grownBytes)],
  ["XLA plans MB", ({ cost }) => megabytes(cost.plannedBytes)],
  ["grown/planned", ({ cost }) => cost.grownBytes && (cost.grownBytes / cost.plannedBytes).toFixed(2)] as Column,
  ["compile s", ({ cost }) => cost.compileSeconds.toFixed(1)],
  ["compile CPU s", ({ cost }) => cost.compileCpuSeconds.toFixed(1)],
];

const flopsOf = ({ sizes }: MeasuredPoint) => flopsPerToken(configOf(sizes), sizes.seq);

export function curveTable({ curve, series }: MeasuredCurve): string {
  const all = series.flatMap(({ points }) => points);
  const shown = columns.filter(([, cell]) => all.some((point) => cell(point)));
  const several = series.length > 1;
  const { measure } = curve;
  const head = [curve.xLabel, ...(several ? [""] : []), ...shown.map(([name]) => name)];
  const rows = series.flatMap((each) => {
    const ratios = neighbourRatios(curve, each);
    return each.points.map((point, i) => [
      labelOf(point),
      ...(several ? [each.name] : []),
      ...shown.map(([, cell]) => cell(point) ?? ""),
      ...(measure
        ? [ratios[i] === undefined ? "" : `${ratios[i].toFixed(2)} ×${ratios[i] > cliffFactor ? " cliff" : ""}`]
        : []),
    ]);
  });
  return `${curve.title}\n\n${textTable([[...head, ...(measure ? [`a ${measure.unit}, to before`] : [])], ...rows])}`;
}

/** The curve as an SVG file; where x is no number, bars of memory. */
export function curveSvg({ curve, series }: MeasuredCurve): string {
  const { title, measure, xLabel } = curve;
  if (measure === undefined) {
    const bars = series.flatMap(({ name, points }) =>
      points.flatMap((point): Bar[] => [
        {
          name: `${labelOf(point)}${name && ` ${name}`} grown`,
          value: (point.cost.grownBytes ?? 0) / 2 ** 20,
          group: 0,
        },
        { name: `${labelOf(point)}${name && ` ${name}`} planned`, value: point.cost.plannedBytes / 2 ** 20, group: 1 },
      ]),
    );
    return svgBars({ title: `${title}, MB`, label: (value) => value.toFixed(1), bars });
  }
  const measured = series.map(({ name, points }) => ({
    name: name || "measured",
    points: points.map(({ x, cost }) => ({ x, y: measure.of(cost) ?? Number.NaN })),
    markers: true,
  }));
  const [first] = series;
  const proportional = {
    name: `in proportion to ${measure.unit}s`,
    points: first!.points.map(({ x, sizes }) => ({ x, y: leastPerWork(curve, first!) * measure.work(sizes) })),
  };
  return svgChart({ title, xLabel, yLabel: measure.label, log: true, series: [...measured, proportional] });
}

const leastPerWork = ({ measure }: Curve, { points }: CurveSeries): number =>
  Math.min(...points.map(({ cost, sizes }) => measure!.of(cost)! / measure!.work(sizes)));

/** All curves, and their cliffs. */
export function curvesText(measured: readonly MeasuredCurve[]): string {
  const cliffs = measured.flatMap(cliffsOf);
  const verdict =
    cliffs.length === 0
      ? `No neighbour costs more than ${cliffFactor} × as much for its work.\n`
      : `Neighbours that cost more than ${cliffFactor} × as much for their work:\n${cliffs.map((cliff) => `  ${cliff}\n`).join("")}`;
  return `${measured.map((each) => `${curveTable(each)}\n`).join("")}${verdict}${cpus().length} cores, ${cpus()[0]?.model}\n`;
}
