/**
 * Metrics: measured numbers in; event lines, console lines, tables and charts out. Nothing here reads the clock or
 * writes a file but `EventLog`. A new kind of event is a member of `RunEvent`; a new row of the comparison, of compare.ts.
 */
export { type Chart, type Point, type Series, smooth } from "./chart.ts";
export { compareRuns, percent, type RunSummary, textTable } from "./compare.ts";
export { formatDuration, stepTimer } from "./duration.ts";
export { evaluations } from "./evaluations.ts";
export {
  EventLog,
  type EventOf,
  type EventsRead,
  eventLine,
  latestByStep,
  notFiniteAsText,
  parseEventLine,
  type RunEvent,
  readEvents,
  type Timed,
} from "./events.ts";
export { type FollowOptions, followEvents } from "./followEvents.ts";
export { type HeatMap, shownNumber, terminalHeatMap } from "./heatMap.ts";
export {
  type GradientRecord,
  type NumericsRecord,
  notFiniteText,
  numericsLine,
  type SiteRecord,
  type SiteStatistic,
  type SiteTensor,
  siteName,
  siteStatistics,
  siteTensors,
  worstGradients,
  worstSites,
} from "./numerics.ts";
export { allTensors, type NumericsView, numericsHeatMap, numericsOverTime, numericsTable } from "./numericsReport.ts";
export {
  type EvalRecord,
  evalLine,
  meanSourceLosses,
  type SourceLoss,
  type StepRecord,
  stepLine,
  stepRecord,
} from "./stepLine.ts";
export { type SvgChartOptions, svgChart } from "./svgChart.ts";
export { svgHeatMap } from "./svgHeatMap.ts";
export { type TerminalChartOptions, terminalAbilities, terminalChart } from "./terminalChart.ts";
export {
  bitsPerByte,
  flopsPerToken,
  gapPercent,
  type ModelShape,
  matmulParameters,
  modelFlopsUtilization,
} from "./throughput.ts";
