/** A block on number lines: an element a line, with the values that its codes can stand for, where it was and what it became. */
import { decode } from "../core/codecs.ts";
import { svgText } from "../metrics/svgText.ts";
import type { BlockDetail, NarrowFormat } from "../quant/index.ts";

export interface PictureInput {
  readonly detail: BlockDetail;
  readonly format: NarrowFormat;
  readonly title: string;
}

/** Lines of a picture at most: the first elements of larger blocks. */
const mostLines = 16;

export interface PictureOptions {
  /** Characters of a line at most. */
  readonly width: number;
  readonly ascii: boolean;
}

/** Values that codes stand for in this block, −largest to largest; empty for formats with too many to be told apart. */
function gridOf({ detail, format }: PictureInput): number[] {
  const { element, largest } = anyUnit(detail);
  if (format.dtype !== "float4_e2m1fn" || element === undefined) return [];
  const unit = element.decoded / element.rounded;
  const positive = Array.from({ length: 8 }, (_, code) => decode("float4_e2m1fn", code) * unit);
  return [...positive.map((x) => -x), ...positive].filter((x) => Math.abs(x) <= Math.max(largest, 6 * unit));
}

/** An element that tells what one unit of the codes decodes to, and the farthest anything lies from 0. */
function anyUnit({ elements }: BlockDetail) {
  const element = elements.find(({ rounded, decoded }) => rounded !== 0 && Number.isFinite(decoded));
  const sizes = elements.flatMap(({ value, decoded }) => [Math.abs(value), Math.abs(decoded)]).filter(Number.isFinite);
  return { element, largest: Math.max(0, ...sizes) };
}

/** In the terminal. */
export function blockPicture(input: PictureInput, { width, ascii }: PictureOptions): string[] {
  const shown = input.detail.elements.slice(0, mostLines);
  const grid = gridOf(input);
  const range = Math.max(anyUnit(input.detail).largest, ...grid) || 1;
  const label = 7;
  const columns = Math.max(11, width - label - 2) | 1;
  const at = (value: number) => Math.round(((Math.max(-1, Math.min(1, value / range)) + 1) / 2) * (columns - 1));
  const sign = ascii
    ? { grid: ":", value: "x", decoded: "o", both: "*", axis: "|" }
    : { grid: "┆", value: "×", decoded: "●", both: "◉", axis: "│" };
  const lines = shown.map(({ row, column, value, decoded }) => {
    const cells = Array.from({ length: columns }, () => " ");
    for (const point of grid) cells[at(point)] = sign.grid;
    cells[at(0)] = sign.axis;
    if (Number.isFinite(decoded)) cells[at(decoded)] = sign.decoded;
    if (Number.isFinite(value)) cells[at(value)] = at(value) === at(decoded) ? sign.both : sign.value;
    return `${`${row},${column}`.padStart(label)}  ${cells.join("")}`.trimEnd();
  });
  const ends = [`−${digits(range)}`, "0", digits(range)] as const;
  const middle = (columns - 1) / 2;
  const axis = `${ends[0]}${ends[1].padStart(middle - ends[0].length + 1)}${ends[2].padStart(columns - middle - 1)}`;
  return [
    ...lines,
    `${" ".repeat(label + 2)}${axis}`,
    `${sign.value} value   ${sign.decoded} decoded   ${sign.both} both${grid.length > 0 ? `   ${sign.grid} what codes stand for` : ""}`,
  ];
}

const digits = (value: number): string => String(Number(value.toPrecision(3)));

/** As the text of an SVG file. */
export function blockSvg(input: PictureInput): string {
  const { detail, title } = input;
  const shown = detail.elements.slice(0, 64);
  const grid = gridOf(input);
  const range = Math.max(anyUnit(detail).largest, ...grid) || 1;
  const [left, right, top, step] = [80, 760, 64, 22];
  const px = (value: number) => Math.round(100 * (left + ((value / range + 1) / 2) * (right - left))) / 100;
  const bottom = top + shown.length * step;
  const rows = shown.flatMap(({ row, column, value, decoded }, i) => {
    const y = top + i * step + 11;
    if (!Number.isFinite(value) || !Number.isFinite(decoded))
      return [svgText(left - 10, y + 4, `${row},${column}: ${value}`, "end")];
    return [
      svgText(left - 10, y + 4, `${row},${column}`, "end"),
      `<g><title>${value} → ${decoded}</title><path d="M${px(value)} ${y}H${px(decoded)}" stroke="#d55e00" stroke-width="3"/>`,
      `<circle cx="${px(decoded)}" cy="${y}" r="5" fill="#0072b2"/><circle cx="${px(value)}" cy="${y}" r="3.5" fill="#fff" stroke="#d55e00" stroke-width="1.8"/></g>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="800" height="${bottom + 56}" viewBox="0 0 800 ${bottom + 56}" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12">`,
    `<rect width="800" height="${bottom + 56}" fill="#fff"/>`,
    svgText(16, 28, title, "start"),
    ...grid.map((value) => `<path d="M${px(value)} ${top}V${bottom}" stroke="#ddd"/>`),
    `<path d="M${px(0)} ${top}V${bottom}" stroke="#888"/>`,
    ...rows,
    ...[-range, 0, range].map((value) => svgText(px(value), bottom + 18, digits(value), "middle")),
    svgText(left, bottom + 40, "○ value   ● decoded   lines: what codes stand for", "start"),
    "</svg>",
    "",
  ].join("\n");
}
