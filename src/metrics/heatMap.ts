/** A heat map of numbers in rows and columns, one panel beside or under the other, as data and in the terminal. */
import { type Range, rangeOf } from "./ticks.ts";

export interface HeatMapPanel {
  readonly name: string;
  /** [rows][columns]; undefined where there is nothing, NaN and infinities where that is what came out. */
  readonly values: readonly (readonly (number | undefined)[])[];
}

export interface HeatMap {
  readonly title: string;
  /** Of the values, "dB"; may be empty. */
  readonly unit: string;
  /** What the rows are, "layer". */
  readonly rowLabel: string;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly panels: readonly HeatMapPanel[];
  /** Which end of the values is the bad one. */
  readonly worse: "low" | "high";
}

export type Colour = readonly [red: number, green: number, blue: number];

/** From bad to good; ordered by lightness too, so that it is read without seeing colours. */
const stops: readonly Colour[] = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];

/** The range of all finite values of the map. */
export function heatRange({ panels }: HeatMap): Range {
  return rangeOf(panels.flatMap(({ values }) => values.flat().map((value) => value ?? Number.NaN)));
}

/** 0 (bad) to 1 (good); infinities are at their end, undefined and NaN have no place. */
export function goodness(value: number | undefined, { min, max }: Range, worse: HeatMap["worse"]): number | undefined {
  if (value === undefined || Number.isNaN(value)) return undefined;
  const share = Math.min(1, Math.max(0, (value - min) / (max - min)));
  return worse === "low" ? share : 1 - share;
}

export function colourAt(good: number): Colour {
  const place = good * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place));
  const mix = (channel: 0 | 1 | 2) =>
    Math.round(stops[i]![channel] + (place - i) * (stops[i + 1]![channel] - stops[i]![channel]));
  return [mix(0), mix(1), mix(2)];
}

/** Whether black is read better on the colour than white. */
export const isLight = ([red, green, blue]: Colour): boolean => 0.299 * red + 0.587 * green + 0.114 * blue > 128;

export interface TerminalHeatMapOptions {
  /** Characters of a line at most, 2 or more. Default 80. */
  readonly width?: number;
  /** No characters beyond ASCII. */
  readonly ascii?: boolean;
  /** 256 colours; without, a sign says how good a value is where there is no room for it. */
  readonly colour?: boolean;
}

const signs = { ascii: "@#*+=-:.", unicode: "█▓▒░" } as const;
/** Widths of a cell, the most telling first: with a decimal, whole numbers, two digits side by side, a sign. */
const cellWidths = [5, 4, 3, 2, 1] as const;

/** The map as lines of text, each with its line end, none wider than `width`. */
export function terminalHeatMap(map: HeatMap, options: TerminalHeatMapOptions = {}): string {
  const width = Math.max(2, Math.floor(options.width ?? 80));
  const labelWidth = Math.min(
    Math.max(map.rowLabel.length, 0, ...map.rows.map((row) => row.length)),
    Math.max(0, width - 2),
  );
  const { cell, beside, chunk } = layout(map, width, labelWidth);
  const range = heatRange(map);
  const lines = wrapped(map.title, width);
  for (let first = 0; first < map.panels.length; first += beside) {
    for (let from = 0; from < Math.max(1, map.columns.length); from += chunk) {
      const columns = map.columns.slice(from, from + chunk);
      const shown = map.panels.slice(first, first + beside);
      const panelWidth = columns.length * cell;
      const join = (label: string, parts: readonly string[]) =>
        [cut(label, labelWidth).padStart(labelWidth), ...parts].join(" ");
      lines.push(
        join(
          "",
          shown.map(({ name }) => cut(name, panelWidth).padEnd(panelWidth)),
        ).trimEnd(),
      );
      const heads = columns.map((name) => cut(name, cell === 1 ? 1 : cell - 1).padStart(cell)).join("");
      lines.push(
        join(
          map.rowLabel,
          shown.map(() => heads),
        ).trimEnd(),
      );
      map.rows.forEach((row, r) => {
        const cells = shown.map(({ values }) =>
          columns.map((_, c) => cellText(values[r]?.[from + c], { map, range, cell, options })).join(""),
        );
        lines.push(join(row, cells).trimEnd());
      });
    }
  }
  return `${[...lines, ...legend(map, range, { ...options, width })].join("\n")}\n`;
}

/** The widest cells with which all panels stand side by side, or as many as do with cells of 3; the columns of a band. */
function layout({ panels, columns }: HeatMap, width: number, labelWidth: number) {
  const count = Math.max(1, columns.length);
  const fits = (beside: number, cell: number) => labelWidth + beside * (1 + count * cell) <= width;
  for (let beside = Math.max(1, panels.length); beside >= 1; beside--) {
    const cell = cellWidths.find((cell) => fits(beside, cell) && (cell >= 3 || beside === 1));
    if (cell !== undefined) return { cell, beside, chunk: count };
  }
  return { cell: 1, beside: 1, chunk: Math.max(1, width - labelWidth - 1) };
}

interface CellContext {
  readonly map: HeatMap;
  readonly range: Range;
  readonly cell: number;
  readonly options: TerminalHeatMapOptions;
}

function cellText(value: number | undefined, { map, range, cell, options }: CellContext): string {
  const { ascii = false, colour = false } = options;
  if (value === undefined) return (ascii ? "." : "·").padStart(cell);
  const good = goodness(value, range, map.worse);
  const number = shortNumber(value, cell === 1 ? 0 : cell - 1, ascii);
  const text = number ?? (good === undefined ? "?" : colour ? " " : signAt(good, ascii));
  const padded = text.padStart(cell);
  if (!colour || good === undefined) return padded;
  const rgb = colourAt(good);
  return `\x1b[48;5;${xterm(rgb)};38;5;${isLight(rgb) ? 16 : 231}m${padded}\x1b[0m`;
}

/** In at most `room` characters, or undefined where none says it. */
function shortNumber(value: number, room: number, ascii: boolean): string | undefined {
  const candidates = Number.isNaN(value)
    ? ["NaN", "?"]
    : Number.isFinite(value)
      ? [...(room >= 4 ? [value.toFixed(1)] : []), value.toFixed(0).replace(/^-0$/, "0"), value.toExponential(0)]
      : [value < 0 ? "-" : "", ""].map((sign, i) => `${sign}${ascii || i === 1 ? "inf" : "∞"}`);
  return candidates.find((text) => text.length <= room);
}

function signAt(good: number, ascii: boolean): string {
  const list = [...(ascii ? signs.ascii : signs.unicode)];
  return list[Math.min(list.length - 1, Math.floor(good * list.length))]!;
}

/** The nearest of the 6×6×6 colours of a terminal of 256. */
export function xterm(rgb: Colour): number {
  const levels = [0, 95, 135, 175, 215, 255];
  const nearest = (value: number) =>
    levels.reduce((best, level, i) => (Math.abs(level - value) < Math.abs(levels[best]! - value) ? i : best), 0);
  const [r, g, b] = rgb.map(nearest) as [number, number, number];
  return 16 + 36 * r + 6 * g + b;
}

/** What the colours or signs mean, bad to good, and what stands for nothing. */
function legend(
  map: HeatMap,
  range: Range,
  { width = 80, ascii = false, colour = false }: TerminalHeatMapOptions,
): string[] {
  const [bad, good] = map.worse === "low" ? [range.min, range.max] : [range.max, range.min];
  const unit = map.unit === "" ? "" : ` ${map.unit}`;
  const show = (value: number) => `${shownNumber(value)}${unit}`;
  const steps = colour ? 16 : ascii ? signs.ascii.length : signs.unicode.length;
  const scale = Array.from({ length: steps }, (_, i) => {
    const at = i / (steps - 1);
    return colour ? `\x1b[48;5;${xterm(colourAt(at))}m \x1b[0m` : signAt(at, ascii);
  }).join("");
  const [before, after] = [`${show(bad)} (worst) `, ` ${show(good)} (best)   ${ascii ? "." : "·"} not quantized`];
  if (before.length + steps + after.length <= width) return [`${before}${scale}${after}`];
  return [cut(`${before.trimEnd()} to ${show(good)} (best)`, width)];
}

/** Three significant digits. */
export function shownNumber(value: number): string {
  if (!Number.isFinite(value) || value === 0) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
}

/** Lines of whole words where these fit. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer;
    else lines.push(cut(word, width));
  }
  return lines;
}

const cut = (text: string, width: number): string => {
  const characters = [...text];
  return characters.length <= width ? text : characters.slice(0, width).join("");
};
