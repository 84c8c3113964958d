/** Heat maps in the terminal and as SVG, and what a record of numerics looks like as text. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type HeatMap, heatRange, terminalHeatMap } from "../../src/metrics/heatMap.ts";
import {
  allTensors,
  eventLine,
  type NumericsRecord,
  numericsHeatMap,
  numericsLine,
  numericsTable,
  parseEventLine,
  svgHeatMap,
  worstSites,
} from "../../src/metrics/index.ts";

const name = fc.string({ maxLength: 12 }).map((text) => text.replace(/\s|\p{C}|[^ -~]/gu, "_"));
const value = fc.oneof(
  fc.double({ min: -1e6, max: 1e6, noNaN: true }),
  fc.constantFrom(0, 20, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, undefined),
);
const maps: fc.Arbitrary<HeatMap> = fc
  .record({ rows: fc.array(name, { maxLength: 6 }), columns: fc.array(name, { maxLength: 9 }) })
  .chain(({ rows, columns }) =>
    fc.record({
      title: name,
      unit: fc.constantFrom("", "dB", "%"),
      rowLabel: name,
      rows: fc.constant(rows),
      columns: fc.constant(columns),
      panels: fc.array(
        fc.record({
          name,
          values: fc.array(fc.array(value, { minLength: columns.length, maxLength: columns.length }), {
            minLength: rows.length,
            maxLength: rows.length,
          }),
        }),
        { maxLength: 4 },
      ),
      worse: fc.constantFrom("low" as const, "high" as const),
    }),
  );

// biome-ignore lint/suspicious/noControlCharactersInRegex: the colours of a terminal begin with one.
const withoutColours = (text: string) => text.replace(/\x1b\[[\d;]*m/g, "");

describe("a heat map", () => {
  it("is never wider than asked, whatever its values", () => {
    const widths = fc.integer({ min: 2, max: 160 });
    fc.assert(
      fc.property(maps, widths, fc.boolean(), fc.boolean(), (map, width, ascii, colour) => {
        const text = terminalHeatMap(map, { width, ascii, colour });
        for (const line of withoutColours(text).split("\n")) expect([...line].length).toBeLessThanOrEqual(width);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII is all of them.
        if (ascii) expect(withoutColours(text)).toMatch(/^[\x00-\x7f]*$/);
        const { min, max } = heatRange(map);
        expect(max).toBeGreaterThan(min);
        expect(svgHeatMap(map)).not.toMatch(/NaN"|Infinity"|undefined/);
      }),
      { numRuns: 300 },
    );
  });

  it("tells numbers where they fit, and marks what is none", () => {
    const map: HeatMap = {
      title: "SNR",
      unit: "dB",
      rowLabel: "layer",
      rows: ["0", "1"],
      columns: ["q", "down"],
      panels: [
        {
          name: "x",
          values: [
            [20.14, Number.NaN],
            [Number.POSITIVE_INFINITY, undefined],
          ],
        },
        {
          name: "dy",
          values: [
            [17.02, 15],
            [18, 19],
          ],
        },
      ],
      worse: "low",
    };
    expect(terminalHeatMap(map, { width: 40 }).split("\n")).toEqual([
      "SNR",
      "      x          dy",
      "layer     q down     q down",
      "    0  20.1  NaN  17.0 15.0",
      "    1     ∞    ·  18.0 19.0",
      "15 dB (worst) to 20.1 dB (best)",
      "",
    ]);
    const svg = svgHeatMap(map);
    expect(svg).toContain("<title>x, layer 0, q: 20.14 dB</title>");
    expect(svg).toContain("<title>x, layer 0, down: NaN dB</title>");
    expect(svg.match(/<g>/g)).toHaveLength(8);
    expect(svg.match(/<g>/g)!.length).toBe(svg.match(/<\/g>/g)!.length);
  });

  it("of equal values is drawn all the same", () => {
    const values = [[7, 7]];
    const map: HeatMap = {
      title: "t",
      unit: "",
      rowLabel: "r",
      rows: ["0"],
      columns: ["a", "b"],
      panels: [{ name: "p", values }],
      worse: "high",
    };
    expect(terminalHeatMap(map, { width: 30 })).toContain("7.0  7.0");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours of a terminal begin with one.
    expect(terminalHeatMap(map, { width: 30, colour: true })).toMatch(/\x1b\[48;5;\d+;38;5;\d+m {2}7\.0/);
  });
});

const record: NumericsRecord = {
  step: 8,
  seconds: 0.5,
  sites: [
    {
      layer: 0,
      module: "attn.q",
      tensor: "x",
      format: "nvfp4",
      amax: 3,
      tensorScale: 896,
      snrDb: 20,
      underflowPercent: 5,
      saturatedPercent: 0,
      zeroBlocksPercent: 0,
      scaleUnderflowPercent: 0,
    },
    {
      layer: 0,
      module: "attn.q",
      tensor: "dy",
      format: "nvfp4",
      amax: Number.NaN,
      tensorScale: 1,
      snrDb: Number.NaN,
      underflowPercent: 9,
      saturatedPercent: 0,
      zeroBlocksPercent: 0,
      scaleUnderflowPercent: 0,
    },
    { layer: 1, module: "attn.q", tensor: "x", amax: 2 },
    {
      layer: 1,
      module: "attn.q",
      tensor: "dy",
      format: "nvfp4",
      amax: 1,
      tensorScale: 2688,
      snrDb: 12.5,
      underflowPercent: 1,
      saturatedPercent: 2,
      zeroBlocksPercent: 0,
      scaleUnderflowPercent: 0,
    },
  ],
  gradients: [
    { tensor: "embed", cosine: 0.99, normRatio: 1 },
    { tensor: "layers.1.q", cosine: 0.9, normRatio: 1.1 },
  ],
  notFinite: ["layer 0 attn.q dy"],
};

describe("a record of numerics", () => {
  it("keeps NaN through the events", () => {
    const { time: _, type, ...read } = parseEventLine(eventLine({ type: "numerics", ...record }))!;
    expect([type, read]).toEqual(["numerics", record]);
  });

  it("has its worst sites first, NaN before all", () => {
    expect(worstSites(record.sites, "snrDb").map(({ snrDb }) => snrDb)).toEqual([Number.NaN, 12.5, 20]);
    expect(worstSites(record.sites, "underflowPercent").map((site) => site.underflowPercent)).toEqual([9, 5, 1]);
  });

  it("is a line, a table and a heat map", () => {
    expect(numericsLine(record)).toBe(
      "numerics of step: 8, lowest SNR: NaN dB (layer 0 attn.q dy), most underflow: 9.00 % (layer 0 attn.q dy), lowest gradient cosine: 0.9000 (layers.1.q), not finite: layer 0 attn.q dy, seconds: 0.500",
    );
    const view = { statistic: "snrDb", tensors: allTensors } as const;
    expect(numericsTable(record, view)).toMatchInlineSnapshot(`
      "step 8: the worst SNR of 4 tensors
                          SNR dB   underflow %   saturated %   amax   tensor scale   cosine
      ─────────────────────────────────────────────────────────────────────────────────────
      layer 0 attn.q dy      NaN             9             0    NaN              1        –
      layer 1 attn.q dy     12.5             1             2      1           2690      0.9
      layer 0 attn.q x        20             5             0      3            896        –
      most underflow: 9 % (layer 0 attn.q dy); most saturated: 2 % (layer 1 attn.q dy)
      lowest cosine of a gradient with BF16's: layers.1.q 0.9 (norm × 1.1); embed 0.99 (norm × 1)
      not finite: layer 0 attn.q dy
      cosine: between the gradient of the layer's weight and that of BF16
      "
    `);
    const map = numericsHeatMap(record, view);
    expect(map.panels.map(({ values }) => values)).toEqual([
      [[20], [undefined]],
      [[undefined], [undefined]],
      [[Number.NaN], [12.5]],
    ]);
  });
});
