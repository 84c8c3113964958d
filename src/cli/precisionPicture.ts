/** The formats of a model's GEMMs as a picture: a row for each layer, a cell for each module, a sign for each GEMM. */
import { cellOf, type PhaseReport, type PrecisionReport } from "../train/precisionReport.ts";

export interface PictureOptions {
  /** Plain characters only. */
  readonly ascii: boolean;
  /** Colour the formats by ANSI codes. */
  readonly colour: boolean;
}

interface Sign {
  readonly sign: string;
  /** ANSI code; absent: not coloured. */
  readonly code?: number;
  /** Of the SVG; Okabe and Ito's colours, which colour-blind eyes tell apart. */
  readonly fill: string;
}

const known: Readonly<Record<string, Sign>> = {
  nvfp4: { sign: "4", code: 33, fill: "#e69f00" },
  mxfp4: { sign: "m", code: 35, fill: "#cc79a7" },
  fp8: { sign: "8", code: 36, fill: "#0072b2" },
  mxfp8: { sign: "x", code: 32, fill: "#009e73" },
};
const plainSign = { sign: "·", fill: "#dddddd" };
const plainNames = ["bf16", "fp16", "fp32"];
/** Of formats without a sign of their own, in the order in which they appear. */
const otherSigns = "abcdefgh";

/** The sign of each format of a run. */
function signsOf({ phases }: PrecisionReport, ascii: boolean): Map<string, Sign> {
  const names = [...new Set(phases.flatMap(({ rows }) => rows.map(({ name }) => name)))];
  const others = names.filter((name) => known[name] === undefined && !plainNames.includes(name));
  const signOf = (name: string): Sign => {
    if (plainNames.includes(name)) return ascii ? { ...plainSign, sign: "." } : plainSign;
    return known[name] ?? { sign: otherSigns[others.indexOf(name) % otherSigns.length]!, code: 31, fill: "#d55e00" };
  };
  return new Map(names.map((name) => [name, signOf(name)]));
}

/** Runs of layers that are alike, or each layer by itself where there are few. */
function layersOf({ rows }: PhaseReport, numLayers: number): { first: number; label: string }[] {
  if (numLayers <= 40) return Array.from({ length: numLayers }, (_, first) => ({ first, label: `${first}` }));
  const firsts = [...new Set(rows.map(({ firstLayer }) => firstLayer))];
  return firsts.map((first) => {
    const last = rows.find(({ firstLayer }) => firstLayer === first)!.lastLayer;
    return { first, label: first === last ? `${first}` : `${first}-${last}` };
  });
}

/** A phase in characters, a line a row. */
export function pictureText(report: PrecisionReport, phase: PhaseReport, { ascii, colour }: PictureOptions): string[] {
  const signs = signsOf(report, ascii);
  const paint = (name: string) => {
    const { sign, code } = signs.get(name)!;
    return colour && code !== undefined ? `\x1b[${code}m${sign}\x1b[0m` : sign;
  };
  const layers = layersOf(phase, report.numLayers);
  const side = Math.max("layer".length, ...layers.map(({ label }) => label.length));
  const width = Math.max(...report.modules.map((module) => module.length));
  const used = new Set(phase.rows.map(({ name }) => name));
  const legend = [...signs.keys()].filter((name) => used.has(name)).map((name) => `${paint(name)} ${name}`);
  return [
    ["layer".padStart(side), ...report.modules.map((module) => module.padEnd(width))].join("  ").trimEnd(),
    ...layers.map(({ first, label }) => {
      const cells = report.modules.map((module) => {
        const names = cellOf(phase, module, first);
        return names.map(paint).join("") + " ".repeat(width - names.length);
      });
      return [label.padStart(side), ...cells].join("  ").trimEnd();
    }),
    `${" ".repeat(side)}  ${legend.join("   ")}   (of a cell: fprop, dgrad, wgrad)`,
  ];
}

const [cellWidth, rowHeight, sideWidth, headHeight] = [84, 16, 70, 56];

/** All phases as an SVG file, one below the other. */
export function pictureSvg(report: PrecisionReport): string {
  const signs = signsOf(report, false);
  const width = sideWidth + cellWidth * report.modules.length + 16;
  let top = 0;
  const parts = report.phases.flatMap((phase) => {
    const layers = layersOf(phase, report.numLayers);
    const begin = top;
    top += headHeight + rowHeight * layers.length + 36;
    const at = (row: number) => begin + headHeight + row * rowHeight;
    return [
      text(16, begin + 22, `steps ${phase.firstStep} to ${phase.lastStep}: ${phase.name}`, 'font-weight="600"'),
      ...report.modules.map((module, i) => text(sideWidth + i * cellWidth, begin + headHeight - 8, module)),
      ...layers.flatMap(({ first, label }, row) => [
        text(sideWidth - 10, at(row) + 12, label, 'text-anchor="end"'),
        ...report.modules.flatMap((module, column) =>
          cellOf(phase, module, first).map((name, gemm) => {
            const x = sideWidth + column * cellWidth + gemm * 25;
            const title = `layers.${label}.${module} ${["fprop", "dgrad", "wgrad"][gemm]}: ${name}`;
            return `<rect x="${x}" y="${at(row) + 1}" width="23" height="14" fill="${signs.get(name)!.fill}"><title>${title}</title></rect>`;
          }),
        ),
      ]),
    ];
  });
  const legend = [...signs].flatMap(([name, { fill }], i) => [
    `<rect x="${sideWidth + i * 110}" y="${top}" width="14" height="14" fill="${fill}"/>`,
    text(sideWidth + i * 110 + 20, top + 12, name),
  ]);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top + 32}" viewBox="0 0 ${width} ${top + 32}" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12">`,
    "<title>Precision of each GEMM: fprop, dgrad, wgrad of each module</title>",
    `<rect width="${width}" height="${top + 32}" fill="#fff"/>`,
    ...parts,
    ...legend,
    "</svg>",
    "",
  ].join("\n");
}

/** Names of formats and modules have no character that XML would take for its own. */
const text = (x: number, y: number, content: string, attributes = "") =>
  `<text x="${x}" y="${y}" fill="#333" ${attributes}>${content}</text>`;
