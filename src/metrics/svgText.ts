/** Text in SVG files. */

export function svgText(x: number, y: number, content: string, anchor: "start" | "middle" | "end"): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" fill="#333">${escapeXml(content)}</text>`;
}

/** Pixels with two decimals. */
export function round(pixels: number): number {
  return Math.round(pixels * 100) / 100;
}

export function escapeXml(content: string): string {
  // Control characters may not stand in XML at all.
  return content.replace(/\p{Cc}/gu, " ").replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}
