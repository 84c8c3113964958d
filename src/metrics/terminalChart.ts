/** A line chart of characters: braille dots (eight to a character), or plain ASCII. */
import { along, type Chart, chartAxes, type Series, unbroken } from "./chart.ts";

export interface TerminalChartOptions {
  /** Characters in all. Default 80 by 20. */
  readonly width?: number;
  readonly height?: number;
  /** Default: braille. */
  readonly ascii?: boolean;
  /** Colour the series by ANSI codes. Off: further series are dotted, or have other signs. */
  readonly colour?: boolean;
}

/** What a terminal can show, from its environment. */
export function terminalAbilities(stream: { readonly isTTY?: boolean; readonly columns?: number }, env = process.env) {
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG || "";
  return {
    width: Math.max(40, Math.min(stream.columns ?? 80, 120)),
    ascii: !/utf-?8/i.test(locale),
    colour: stream.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb",
  };
}

const asciiSigns = ["*", "+", "o", "x"];
const asciiShared = "#";
const colours = [36, 33, 32, 35]; // cyan, yellow, green, magenta
const reset = "\x1b[0m";

/** The chart as lines of text, each with its line end. */
export function terminalChart(chart: Chart, options: TerminalChartOptions = {}): string {
  const { width = 80, height = 20, ascii = false, colour = false } = options;
  const rows = Math.max(4, height - 5); // title, legend, axis, x marks, x label
  const axes = chartAxes(chart, { x: Math.max(2, Math.floor(width / 14)), y: Math.max(2, Math.floor(rows / 3)) });
  const labelWidth = Math.max(...axes.y.ticks.map(({ label }) => label.length));
  const columns = Math.max(10, width - labelWidth - 2);
  const paint = (text: string, index: number) =>
    colour ? `\x1b[${colours[index % colours.length]}m${text}${reset}` : text;

  const dots = ascii ? { x: 1, y: 1 } : { x: 2, y: 4 };
  const layers = chart.series.map((series, index) => {
    const sparse = !ascii && !colour && index > 0 ? index + 2 : 1;
    return rasterise(series, axes, { width: columns * dots.x, height: rows * dots.y }, sparse);
  });
  const cell = (row: number, column: number): string => {
    const bits = layers.map((layer) => cellBits(layer, row, column, dots, columns * dots.x));
    const present = bits.flatMap((value, index) => (value > 0 ? [index] : []));
    const top = present.at(-1);
    if (top === undefined) return " ";
    if (ascii) return paint(present.length > 1 ? asciiShared : asciiSigns[top % asciiSigns.length]!, top);
    const all = bits.reduce((sum, value) => sum | value, 0);
    return paint(String.fromCharCode(0x2800 + all), top);
  };

  const line = ascii
    ? { tick: "+", wall: "|", floor: "-", corner: "+" }
    : { tick: "┤", wall: "│", floor: "─", corner: "└" };
  const rowOf = (value: number) => Math.round((1 - along(axes.y, value)) * (rows - 1));
  const labels = new Map(axes.y.ticks.map(({ value, label }) => [rowOf(value), label]));
  const plot = Array.from({ length: rows }, (_, row) => {
    const label = labels.get(row);
    const cells = Array.from({ length: columns }, (_, column) => cell(row, column)).join("");
    return `${(label ?? "").padStart(labelWidth)} ${label === undefined ? line.wall : line.tick}${cells}`.trimEnd();
  });
  const indent = " ".repeat(labelWidth + 1);
  // Above the plot, or further left where wide labels leave too little room.
  const above = (text: string, length: number) =>
    " ".repeat(Math.max(0, Math.min(labelWidth + 2, width - length))) + text;
  return [
    ...(chart.title === "" ? [] : [above(chart.title, [...chart.title].length)]),
    ...legend(chart, { ascii, colour, width }, paint).map(({ text, length }) => above(text, length)),
    ...plot,
    `${indent}${line.corner}${line.floor.repeat(columns)}`,
    `${indent} ${xMarks(
      axes.x.ticks.map(({ value, label }) => ({ at: Math.round(along(axes.x, value) * (columns - 1)), label })),
      columns,
    )}`,
    `${indent} ${chart.xLabel.padStart(Math.floor((columns + chart.xLabel.length) / 2))}`,
    "",
  ].join("\n");
}

interface Grid {
  readonly width: number;
  readonly height: number;
}

/** Which dots a series covers. @param sparse draw every so-manieth dot of a line only */
function rasterise(series: Series, axes: ReturnType<typeof chartAxes>, grid: Grid, sparse: number): Uint8Array {
  const covered = new Uint8Array(grid.width * grid.height);
  const place = (point: { x: number; y: number }) => ({
    x: Math.round(along(axes.x, point.x) * (grid.width - 1)),
    y: Math.round((1 - along(axes.y, point.y)) * (grid.height - 1)),
  });
  for (const stretch of unbroken(series.points)) {
    let from = place(stretch[0]!);
    let drawn = 0;
    covered[from.y * grid.width + from.x] = 1;
    for (const point of stretch.slice(1)) {
      const to = place(point);
      const length = Math.max(Math.abs(to.x - from.x), Math.abs(to.y - from.y));
      for (let i = 1; i <= length; i++) {
        if (++drawn % sparse !== 0) continue;
        const x = Math.round(from.x + ((to.x - from.x) * i) / length);
        const y = Math.round(from.y + ((to.y - from.y) * i) / length);
        covered[y * grid.width + x] = 1;
      }
      from = to;
    }
  }
  return covered;
}

// Bits of the braille block, by row and column of dots.
const brailleBits = [
  [0x01, 0x08],
  [0x02, 0x10],
  [0x04, 0x20],
  [0x40, 0x80],
];

function cellBits(covered: Uint8Array, row: number, column: number, dots: { x: number; y: number }, width: number) {
  let bits = 0;
  for (let y = 0; y < dots.y; y++) {
    for (let x = 0; x < dots.x; x++) {
      if (covered[(row * dots.y + y) * width + column * dots.x + x]) bits |= brailleBits[y]![x]!;
    }
  }
  return bits;
}

/** The series' signs and names, in as many lines as they need. @param width characters of a line */
function legend(
  chart: Chart,
  { ascii, colour, width }: { ascii: boolean; colour: boolean; width: number },
  paint: (text: string, index: number) => string,
): { readonly text: string; readonly length: number }[] {
  const entries = chart.series.map(({ name }, index) => {
    const sign = ascii ? asciiSigns[index % asciiSigns.length]! : colour || index === 0 ? "⠤⠤" : "⠄⠄";
    return { text: `${paint(sign, index)} ${name}`, length: [...`${sign} ${name}`].length };
  });
  const several = `${asciiShared} several`;
  if (ascii && chart.series.length > 1) entries.push({ text: several, length: several.length });
  const begin = `${chart.yLabel}:  `;
  const [first, ...others] = entries;
  const lines = [{ text: begin + (first?.text ?? ""), length: [...begin].length + (first?.length ?? 0) }];
  for (const { text, length } of others) {
    const last = lines.at(-1)!;
    const together = last.length + 3 + length;
    if (together > width) lines.push({ text, length });
    else lines[lines.length - 1] = { text: `${last.text}   ${text}`, length: together };
  }
  return lines;
}

/** Labels under an axis, centred at their places; one that would touch its neighbour is left out. */
function xMarks(marks: readonly { readonly at: number; readonly label: string }[], columns: number): string {
  let text = "";
  for (const { at, label } of marks) {
    const start = Math.max(0, Math.min(columns - label.length, at - Math.floor(label.length / 2)));
    if (text === "" || start > text.length) text = text.padEnd(start) + label;
  }
  return text;
}
