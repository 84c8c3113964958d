/** Tables of text in narrow terminals. */
import { expect, it } from "vitest";
import { textTable } from "../../src/metrics/compare.ts";
import { terminalHeatMap } from "../../src/metrics/heatMap.ts";

const table = [
  ["", "SNR dB", "amax"],
  ["0.up", "12.5", "3"],
];

it("puts columns that do not fit into tables below", () => {
  expect(textTable(table)).toBe("       SNR dB   amax\n────────────────────\n0.up     12.5      3\n");
  expect(textTable(table, 20)).toBe(textTable(table));
  expect(textTable(table, 19)).toBe(
    "       SNR dB\n─────────────\n0.up     12.5\n\n       amax\n───────────\n0.up      3\n",
  );
});

it("breaks a heat map's title between words", () => {
  const map = {
    title: "step 12: SNR of every tensor",
    rowLabel: "layer",
    rows: ["0"],
    columns: ["q"],
    worse: "low",
  } as const;
  const lines = terminalHeatMap({ ...map, unit: "dB", panels: [{ name: "x", values: [[1]] }] }, { width: 15 }).split(
    "\n",
  );
  expect(lines.slice(0, 2)).toEqual(["step 12: SNR of", "every tensor"]);
});
