/** What measured numerics look like: the worst sites as a table, all of them as a heat map, how they went over the steps. */
import type { Chart } from "./chart.ts";
import { textTable } from "./compare.ts";
import { type HeatMap, shownNumber } from "./heatMap.ts";
import {
  type NumericsRecord,
  notFiniteText,
  type SiteRecord,
  type SiteStatistic,
  type SiteTensor,
  siteName,
  siteStatistics,
  siteTensors,
  worstGradients,
  worstSites,
} from "./numerics.ts";

/** What is shown of a record. */
export interface NumericsView {
  readonly statistic: SiteStatistic;
  readonly tensors: readonly SiteTensor[];
}

export const allTensors = Object.keys(siteTensors) as SiteTensor[];

const tableColumns: readonly SiteStatistic[] = [
  "snrDb",
  "underflowPercent",
  "saturatedPercent",
  "zeroBlocksPercent",
  "scaleUnderflowPercent",
  "amax",
  "tensorScale",
];

/** Rows of the table of the worst. */
const shownSites = 8;

/** The sites that are worst in the view's statistic, with the cosine of the weight's gradient, and what else stands out. */
export function numericsTable(record: NumericsRecord, { statistic, tensors }: NumericsView, width?: number): string {
  const sites = record.sites.filter(({ tensor }) => tensors.includes(tensor));
  const worst = worstSites(sites, statistic).slice(0, shownSites);
  const cosines = new Map(record.gradients?.map(({ tensor, cosine }) => [tensor, cosine]));
  const cosineOf = ({ layer, module }: SiteRecord) => cosines.get(`layers.${layer}.${module.split(".")[1]}`);
  // A column of zeros says nothing.
  const columns = tableColumns.filter((name) => name === statistic || worst.some((site) => site[name] ?? 0));
  const head = columns.map((name) => withUnit(siteStatistics[name].label, siteStatistics[name].unit));
  const rows = worst.map((site) => [
    siteName(site),
    ...columns.map((name) => shown(site[name])),
    ...(cosines.size > 0 ? [shown(cosineOf(site))] : []),
  ]);
  const { label } = siteStatistics[statistic];
  const title =
    worst.length === 0
      ? `step ${record.step}: no ${label} of any tensor`
      : `step ${record.step}: the worst ${label} of ${sites.length} tensors`;
  const table = textTable([["", ...head, ...(cosines.size > 0 ? ["cosine"] : [])], ...rows], width);
  return [
    title,
    worst.length === 0 ? "nothing is quantized" : table.trimEnd(),
    ...remarks(record, sites),
    ...(cosines.size > 0 ? ["cosine: between the gradient of the layer's weight and that of BF16"] : []),
    "",
  ].join("\n");
}

/** What stands out besides the table: the worst site of each other kind, gradients, and what is not finite. */
function remarks({ gradients = [], notFinite = [] }: NumericsRecord, sites: readonly SiteRecord[]): string[] {
  const others = (["underflowPercent", "saturatedPercent", "scaleUnderflowPercent"] as const).flatMap((name) => {
    const [site] = worstSites(sites, name);
    return site === undefined || site[name] === 0
      ? []
      : [`most ${siteStatistics[name].label}: ${shown(site[name])} % (${siteName(site)})`];
  });
  const lowest = worstGradients(gradients)
    .slice(0, 3)
    .map(({ tensor, cosine, normRatio }) => `${tensor} ${shown(cosine)} (norm × ${shown(normRatio)})`);
  return [
    ...(others.length > 0 ? [others.join("; ")] : []),
    ...(lowest.length > 0 ? [`lowest cosine of a gradient with BF16's: ${lowest.join("; ")}`] : []),
    ...(notFinite.length > 0 ? [`not finite: ${notFiniteText(notFinite)}`] : []),
  ];
}

/** Layers by modules, a panel a tensor. */
export function numericsHeatMap(record: NumericsRecord, { statistic, tensors }: NumericsView): HeatMap {
  const modules = [...new Set(record.sites.map(({ module }) => module))];
  const layers = [...new Set(record.sites.map(({ layer }) => layer))].sort((a, b) => a - b);
  const values = new Map(record.sites.map((site) => [siteName(site), site[statistic]]));
  const { label, unit, worse } = siteStatistics[statistic];
  return {
    title: `${withUnit(label, unit)} of each linear layer's tensors, step ${record.step}`,
    unit,
    rowLabel: "layer",
    rows: layers.map(String),
    columns: modules.map((module) => module.slice(module.indexOf(".") + 1)),
    panels: tensors.map((tensor) => ({
      name: `${tensor} (${siteTensors[tensor]})`,
      values: layers.map((layer) => modules.map((module) => values.get(siteName({ layer, module, tensor, amax: 0 })))),
    })),
    worse,
  };
}

/** The worst site of each tensor over the measured steps. */
export function numericsOverTime(records: readonly NumericsRecord[], { statistic, tensors }: NumericsView): Chart {
  const { label, unit } = siteStatistics[statistic];
  const series = tensors.map((tensor) => ({
    name: tensor,
    points: records.map(({ step, sites }) => {
      const [worst] = worstSites(
        sites.filter((site) => site.tensor === tensor),
        statistic,
      );
      return { x: step, y: worst?.[statistic] ?? Number.NaN };
    }),
  }));
  return {
    title: `Worst ${withUnit(label, unit)} over the steps`,
    xLabel: "step",
    yLabel: withUnit(label, unit),
    series,
  };
}

const shown = (value: number | undefined): string => (value === undefined ? "–" : shownNumber(value));

const withUnit = (label: string, unit: string): string => (unit === "" ? label : `${label} ${unit}`);
