/** Bars of named values beside each other, for a terminal and as an SVG file. */

export interface Bar {
  readonly name: string;
  readonly value: number;
  /** Bars of one group share a colour. */
  readonly group: number;
}

export interface BarChart {
  readonly title: string;
  /** Text of a value beside its bar, as "1.23 ×". */
  readonly label: (value: number) => string;
  readonly bars: readonly Bar[];
}

const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** Lines of text, each with its line end; bars start at 0. `columns` is the length of the longest bar. */
export function terminalBars({ title, label, bars }: BarChart, columns = 48): string {
  const widest = Math.max(...bars.map(({ name }) => name.length));
  const most = Math.max(...bars.map(({ value }) => value));
  const line = ({ name, value }: Bar) => {
    const parts = Math.max(1, Math.round((value / most) * columns * 8));
    return `${name.padEnd(widest)} ${"█".repeat(Math.floor(parts / 8))}${eighths[parts % 8]} ${label(value)}`;
  };
  return `${[title, ...bars.map(line)].join("\n")}\n`;
}

// Okabe and Ito's colours, which colour-blind eyes tell apart.
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];
const row = { height: 26, bar: 18 };

/** The text of an SVG file. */
export function svgBars({ title, label, bars }: BarChart): string {
  const left = 24 + 7.4 * Math.max(...bars.map(({ name }) => name.length));
  const [width, top] = [900, 48];
  const most = Math.max(...bars.map(({ value }) => value));
  const height = top + bars.length * row.height + 16;
  const lines = bars.flatMap(({ name, value, group }, index) => {
    const y = top + index * row.height;
    const length = Math.max(1, (value / most) * (width - left - 90));
    const colour = colours[group % colours.length];
    return [
      `<text x="${left - 8}" y="${y + 14}" text-anchor="end" fill="#333">${escapeXml(name)}</text>`,
      `<rect x="${left}" y="${y}" width="${length.toFixed(1)}" height="${row.bar}" fill="${colour}"/>`,
      `<text x="${(left + length + 8).toFixed(1)}" y="${y + 14}" fill="#333">${escapeXml(label(value))}</text>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="16" y="28" font-size="17" font-weight="600" fill="#111">${escapeXml(title)}</text>`,
    ...lines,
    "</svg>",
    "",
  ].join("\n");
}

const escapeXml = (text: string): string => text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`);
