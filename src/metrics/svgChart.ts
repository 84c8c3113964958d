/** A line chart as an SVG file: white background, axes with marks, a legend, colours that colour-blind eyes tell apart. */
import { along, type Chart, chartAxes, type Point, unbroken } from "./chart.ts";
import { escapeXml, round, svgText } from "./svgText.ts";

export interface SvgChartOptions {
  /** Pixels. Default 800 by 480. */
  readonly width?: number;
  readonly height?: number;
}

// Okabe and Ito's colours that hold on white; further series are also dashed.
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"];
const dashes = ["", "7 4", "2 3", "10 3 2 3", ""];

const fontSize = 13;
const margin = { top: 48, right: 24, bottom: 56, left: 72 };

/** The text of an SVG file. */
export function svgChart(chart: Chart, options: SvgChartOptions = {}): string {
  const { width = 800, height = 480 } = options;
  const plot = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const axes = chartAxes(chart, { x: 8, y: 6 });
  const px = (x: number) => round(plot.left + along(axes.x, x) * (plot.right - plot.left));
  const py = (y: number) => round(plot.bottom - along(axes.y, y) * (plot.bottom - plot.top));

  const grid = [
    ...axes.y.ticks.flatMap(({ value, label }) => [
      `<line x1="${plot.left}" y1="${py(value)}" x2="${plot.right}" y2="${py(value)}" stroke="#e2e2e2"/>`,
      svgText(plot.left - 8, py(value) + 4, label, "end"),
    ]),
    ...axes.x.ticks.flatMap(({ value, label }) => [
      `<line x1="${px(value)}" y1="${plot.bottom}" x2="${px(value)}" y2="${plot.bottom + 5}" stroke="#333"/>`,
      svgText(px(value), plot.bottom + 20, label, "middle"),
    ]),
    `<path d="M${plot.left} ${plot.top}V${plot.bottom}H${plot.right}" fill="none" stroke="#333"/>`,
  ];
  const lines = chart.series.flatMap((series, index) => {
    const style = `stroke="${colours[index % colours.length]}"${dash(index)} fill="none" stroke-width="2" stroke-linejoin="round"`;
    const at = (point: Point) => `${px(point.x)} ${py(point.y)}`;
    const stretches = unbroken(series.points);
    const dots = series.markers ? stretches.flat() : stretches.filter(({ length }) => length === 1).flat();
    return [
      ...stretches.map((points) => `<path d="M${points.map(at).join("L")}" ${style}/>`),
      ...dots.map(
        ({ x, y }) => `<circle cx="${px(x)}" cy="${py(y)}" r="3.5" fill="${colours[index % colours.length]}"/>`,
      ),
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="${fontSize}">`,
    `<title>${escapeXml(chart.title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="${plot.left}" y="26" font-size="17" font-weight="600" fill="#111">${escapeXml(chart.title)}</text>`,
    ...grid,
    ...lines,
    ...legend(chart, plot, (point) => ({ x: px(point.x), y: py(point.y) })),
    svgText((plot.left + plot.right) / 2, height - 14, chart.xLabel, "middle"),
    `<text transform="translate(24 ${(plot.top + plot.bottom) / 2}) rotate(-90)" text-anchor="middle" fill="#333">${escapeXml(chart.yLabel)}</text>`,
    "</svg>",
    "",
  ].join("\n");
}

interface Plot {
  readonly left: number;
  readonly right: number;
  readonly top: number;
}

/** A box at the upper right, where a falling loss leaves room, or at the upper left where it hides fewer points. */
function legend(chart: Chart, plot: Plot, at: (point: Point) => Point): string[] {
  const widest = Math.max(...chart.series.map(({ name }) => name.length));
  const box = { width: Math.ceil(widest * fontSize * 0.58) + 60, height: chart.series.length * 20 + 12 };
  const [atRight, atLeft] = [plot.right - box.width - 8, plot.left + 8];
  const { top } = plot;
  const shown = chart.series.flatMap(({ points }) => points.filter(({ y }) => Number.isFinite(y)).map(at));
  const hidden = (left: number) =>
    shown.filter(({ x, y }) => x >= left && x <= left + box.width && y <= top + 4 + box.height).length;
  const left = hidden(atLeft) < hidden(atRight) ? atLeft : atRight;
  return [
    `<rect x="${left}" y="${top + 4}" width="${box.width}" height="${box.height}" fill="#fff" fill-opacity="0.85" stroke="#bbb"/>`,
    ...chart.series.flatMap(({ name }, index) => {
      const y = top + 20 + index * 20;
      return [
        `<path d="M${left + 10} ${y}H${left + 42}" stroke="${colours[index % colours.length]}"${dash(index)} stroke-width="2.5"/>`,
        svgText(left + 50, y + 4, name, "start"),
      ];
    }),
  ];
}

function dash(index: number): string {
  const pattern = dashes[index % dashes.length];
  return pattern === "" ? "" : ` stroke-dasharray="${pattern}"`;
}
