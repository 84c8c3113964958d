/** A heat map as an SVG file: panels side by side, each number in its cell, a colour bar with its unit. */
import { colourAt, goodness, type HeatMap, heatRange, isLight, shownNumber } from "./heatMap.ts";
import { escapeXml, svgText } from "./svgText.ts";

const cell = { width: 52, height: 24 };
const fontSize = 12;
const top = 72;
const gap = 28;
const bar = { height: 14, steps: 40 };

/** The text of an SVG file. */
export function svgHeatMap(map: HeatMap): string {
  const range = heatRange(map);
  const labelWidth = 16 + 7 * Math.max(map.rowLabel.length, ...map.rows.map((row) => row.length), 3);
  const panelWidth = Math.max(1, map.columns.length) * cell.width;
  const width = Math.max(labelWidth + map.panels.length * (panelWidth + gap) + 8, 24 + 8 * map.title.length, 420);
  const bottom = top + map.rows.length * cell.height;
  const height = bottom + 64;
  const rows = map.rows.map((row, r) => svgText(labelWidth - 8, top + r * cell.height + 16, row, "end"));
  const panels = map.panels.flatMap(({ name, values }, p) => {
    const left = labelWidth + p * (panelWidth + gap);
    return [
      `<text x="${left}" y="${top - 26}" font-weight="600" fill="#111">${escapeXml(name)}</text>`,
      ...map.columns.map((column, c) => svgText(left + (c + 0.5) * cell.width, top - 8, column, "middle")),
      ...map.rows.flatMap((row, r) =>
        map.columns.map((column, c) => {
          const value = values[r]?.[c];
          return svgCell({ x: left + c * cell.width, y: top + r * cell.height }, value, {
            good: goodness(value, range, map.worse),
            title: `${name}, ${map.rowLabel} ${row}, ${column}: ${value === undefined ? "none" : `${value} ${map.unit}`.trimEnd()}`,
          });
        }),
      ),
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="${fontSize}">`,
    `<title>${escapeXml(map.title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="16" y="26" font-size="17" font-weight="600" fill="#111">${escapeXml(map.title)}</text>`,
    svgText(labelWidth - 8, top - 8, map.rowLabel, "end"),
    ...rows,
    ...panels,
    ...colourBar(map, range, labelWidth, bottom + 22),
    "</svg>",
    "",
  ].join("\n");
}

interface CellLook {
  readonly good: number | undefined;
  readonly title: string;
}

function svgCell(
  { x, y }: { readonly x: number; readonly y: number },
  value: number | undefined,
  look: CellLook,
): string {
  const rgb = look.good === undefined ? undefined : colourAt(look.good);
  const fill = rgb === undefined ? (value === undefined ? "#f2f2f2" : "#ff2fd0") : `rgb(${rgb.join(",")})`;
  const ink = rgb === undefined || isLight(rgb) ? "#111" : "#fff";
  const label = value === undefined ? "–" : shownNumber(value);
  return [
    `<g><title>${escapeXml(look.title)}</title>`,
    `<rect x="${x}" y="${y}" width="${cell.width - 2}" height="${cell.height - 2}" fill="${fill}"/>`,
    `<text x="${x + cell.width / 2 - 1}" y="${y + 15}" text-anchor="middle" font-size="11" fill="${ink}">${label}</text></g>`,
  ].join("");
}

function colourBar(map: HeatMap, range: { min: number; max: number }, left: number, y: number): string[] {
  const [bad, good] = map.worse === "low" ? [range.min, range.max] : [range.max, range.min];
  const unit = map.unit === "" ? "" : ` ${map.unit}`;
  const step = 5;
  const steps = Array.from({ length: bar.steps }, (_, i) => {
    const rgb = colourAt(i / (bar.steps - 1));
    return `<rect x="${left + i * step}" y="${y}" width="${step}" height="${bar.height}" fill="rgb(${rgb.join(",")})"/>`;
  });
  return [
    ...steps,
    svgText(left, y + bar.height + 16, `${shownNumber(bad)}${unit} (worst)`, "start"),
    svgText(left + bar.steps * step, y + bar.height + 16, `${shownNumber(good)}${unit} (best)`, "end"),
    svgText(left + bar.steps * step + 16, y + 12, "– not quantized", "start"),
  ];
}
