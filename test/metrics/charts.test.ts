import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { along, chartAxes, smooth } from "../../src/metrics/chart.ts";
import {
  compareRuns,
  type Point,
  percent,
  svgChart,
  terminalAbilities,
  terminalChart,
} from "../../src/metrics/index.ts";
import { axisOver, logAxisOver, rangeOf } from "../../src/metrics/ticks.ts";

const line = (f: (x: number) => number, count = 50) => Array.from({ length: count }, (_, x) => ({ x, y: f(x) }));
const chart = {
  title: "Loss <of two>",
  xLabel: "step",
  yLabel: "nats",
  series: [
    { name: "bf16", points: line((x) => 4 + 4 / (1 + x / 5)) },
    { name: "nvfp4", points: line((x) => 4.6 + 3.4 / (1 + x / 5)) },
  ],
};

describe("axes", () => {
  it.each([
    [0, 1, 5, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]],
    [3.9, 8.31, 6, ["4", "5", "6", "7", "8"]],
    [1, 320, 8, ["50", "100", "150", "200", "250", "300"]],
    [-0.03, 0.02, 5, ["-0.03", "-0.02", "-0.01", "0", "0.01", "0.02"]],
    [0, 20_000, 4, ["0", "5,000", "10,000", "15,000", "20,000"]],
    [1.0001, 1.0004, 3, ["1.0001", "1.0002", "1.0003", "1.0004"]],
  ])("from %d to %d have round marks", (min, max, count, labels) => {
    expect(axisOver({ min, max }, count).ticks.map(({ label }) => label)).toEqual(labels);
  });

  it("have a few marks inside any range", () => {
    const finite = fc.double({ min: -1e9, max: 1e9, noNaN: true });
    fc.assert(
      fc.property(finite, finite, fc.integer({ min: 2, max: 12 }), (a, b, count) => {
        const range = rangeOf([a, b]);
        if (range.max - range.min < 1e-6 * Math.max(1, Math.abs(a), Math.abs(b))) return;
        const { ticks } = axisOver(range, count);
        expect(ticks.length).toBeGreaterThanOrEqual(1);
        expect(ticks.length).toBeLessThanOrEqual(count + 2);
        const slack = (range.max - range.min) * 1e-6;
        expect(ticks.every(({ value }) => value >= range.min - slack && value <= range.max + slack)).toBe(true);
      }),
    );
  });

  it.each([
    [1, 16, 8, ["1", "2", "5", "10"]],
    [0.02, 3, 6, ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]],
    [0.0007, 9_000_000, 6, ["0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]],
    [512, 800, 4, ["600", "700", "800"]],
  ])("of factors from %d to %d have round marks", (min, max, count, labels) => {
    expect(logAxisOver({ min, max }, count).ticks.map(({ label }) => label)).toEqual(labels);
  });

  it("of factors put equal factors at equal distances", () => {
    const points = [1, 2, 4, 8, 16].map((x) => ({ x, y: 3 * x }));
    const { x, y } = chartAxes({ ...chart, log: true, series: [{ name: "line", points }] }, { x: 5, y: 5 });
    expect(points.map((point) => along(x, point.x))).toEqual([0, 0.25, 0.5, 0.75, 1].map((at) => expect.closeTo(at)));
    expect(along(y, 12)).toBeCloseTo(0.5);
    const flat = chartAxes(
      { ...chart, log: true, series: [{ name: "dot", points: [{ x: 3, y: 0.2 }] }] },
      { x: 5, y: 5 },
    );
    expect(along(flat.x, 3)).toBeCloseTo(0.5);
    expect(along(flat.y, 0.2)).toBeCloseTo(0.5);
  });

  it("have a width even where the values have none, or there are none", () => {
    expect(rangeOf([])).toEqual({ min: 0, max: 1 });
    expect(rangeOf([Number.NaN])).toEqual({ min: 0, max: 1 });
    expect(rangeOf([5])).toEqual({ min: 4.5, max: 5.5 });
    expect(rangeOf([1, Number.POSITIVE_INFINITY, 3])).toEqual({ min: 1, max: 3 });
  });

  it("leave room above and below, unless the range is given", () => {
    expect(chartAxes(chart, { x: 5, y: 5 }).y.max).toBeGreaterThan(8);
    expect(chartAxes({ ...chart, yRange: { min: 4, max: 6 } }, { x: 5, y: 5 }).y).toMatchObject({ min: 4, max: 6 });
  });
});

describe("smooth", () => {
  it("is the mean of the last points, without what is no number", () => {
    const points = [2, 4, Number.NaN, 6].map((y, x) => ({ x, y }));
    expect(smooth(points, 2).map(({ y }) => y)).toEqual([2, 3, 4, 6]);
  });
});

describe("terminalChart", () => {
  it("names many series in as many lines as they need", () => {
    const names = ["training", "training on books", "training on code", "validation"];
    const many = { ...chart, series: names.map((name) => ({ name, points: line((x) => x) })) };
    const lines = terminalChart(many, { width: 50, height: 12 }).split("\n");
    expect(lines.slice(1, 3)).toEqual([
      "    nats:  ⠤⠤ training   ⠄⠄ training on books",
      "    ⠄⠄ training on code   ⠄⠄ validation",
    ]);
    expect(Math.max(...lines.map((text) => text.length))).toBeLessThanOrEqual(50);
  });

  it("draws braille", () => {
    expect(terminalChart(chart, { width: 60, height: 16 })).toMatchInlineSnapshot(`
      "   Loss <of two>
         nats:  ⠤⠤ bf16   ⠄⠄ nvfp4
      8 ┤⡄
        │⢸
        │ ⢣⡀
        │  ⠣⡄
        │   ⠱⡂⢀
      6 ┤    ⠑⢄ ⠄
        │      ⠑⢄⡈ ⠄⠠ ⡀
        │        ⠈⠒⠤⣀  ⠐ ⠂⠠ ⠄⢀ ⡀
        │            ⠉⠑⠒⠢⠤⣀⣀⣀⡀  ⠈ ⠁⠈ ⠁⠐ ⠂⠐ ⠄⠠ ⠄⠠ ⠄⠠ ⠄⢀ ⡀⢀ ⡀⢀ ⡀⢀ ⡀⢀
        │                    ⠈⠉⠑⠒⠒⠒⠤⠤⠤⠤⢄⣀⣀⣀⣀⣀⡀
        │                                    ⠈⠉⠉⠉⠉⠉⠉⠉⠉⠑⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒
        └─────────────────────────────────────────────────────────
         0                     20                     40
                                   step
      "
    `);
  });

  it("draws ASCII, and nothing else", () => {
    const drawn = terminalChart(chart, { width: 60, height: 16, ascii: true });
    expect(drawn).toMatchInlineSnapshot(`
      "   Loss <of two>
         nats:  * bf16   + nvfp4   # several
      8 +#
        | #
        | #
        |  #
        |   #++
      6 +    **#++
        |       **++++++
        |         ***** ++++++++++++
        |              *********    ++++++++++++++++++++++++++++++
        |                       **************************
        |                                                 ********
        +---------------------------------------------------------
         0                     20                     40
                                   step
      "
    `);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII is meant
    expect(drawn).toMatch(/^[\x00-\x7f]*$/);
  });

  it("colours the series, and takes no more room for it", () => {
    const plain = terminalChart({ ...chart, series: chart.series.slice(0, 1) });
    const coloured = terminalChart({ ...chart, series: chart.series.slice(0, 1) }, { colour: true });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes begin with one
    expect(coloured.replace(/\x1b\[\d+m/g, "")).toBe(plain);
    expect(terminalChart(chart, { colour: true })).toContain("\x1b[33m");
  });

  it("fits its width whatever it shows", () => {
    const points = fc.array(
      fc.record({ x: fc.integer({ min: 0, max: 100_000 }), y: fc.double({ min: -1e6, max: 1e6 }) }),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(points, points, fc.integer({ min: 40, max: 120 }), fc.boolean(), (a, b, width, ascii) => {
        const series = [
          { name: "a", points: a.sort((p, q) => p.x - q.x) },
          { name: "b", points: b.sort((p, q) => p.x - q.x) },
        ];
        const rows = terminalChart({ ...chart, series }, { width, height: 12, ascii }).split("\n");
        expect(rows).toHaveLength(13);
        for (const row of rows) expect([...row].length).toBeLessThanOrEqual(width);
      }),
    );
  });

  it("draws values so small and so close that no round number lies between them", () => {
    for (const values of [
      [0, 2.5e-323],
      [-1.4829644959274095e-250, -3.855707564411264e-249],
      [123456.789, 123456.78900000002],
    ]) {
      const series = values.map((y, x) => ({ name: `${x}`, points: [{ x, y }] }));
      const rows = terminalChart({ ...chart, series }, { width: 40, height: 12 }).split("\n");
      expect(rows).toHaveLength(13);
      for (const row of rows) expect([...row].length).toBeLessThanOrEqual(40);
    }
  });

  it("asks the terminal what it can show", () => {
    const tty = { isTTY: true, columns: 200 };
    expect(terminalAbilities(tty, { LANG: "en_US.UTF-8" })).toEqual({ width: 120, ascii: false, colour: true });
    expect(terminalAbilities({}, { LANG: "C" })).toEqual({ width: 80, ascii: true, colour: false });
    expect(terminalAbilities(tty, { LC_ALL: "C", LANG: "en_US.UTF-8", NO_COLOR: "1" })).toMatchObject({
      ascii: true,
      colour: false,
    });
  });
});

describe("svgChart", () => {
  it("draws axes, lines and a legend", () => {
    const short = chart.series.map((series) => ({ ...series, points: series.points.slice(0, 4) }));
    expect(svgChart({ ...chart, series: short }, { width: 400, height: 240 })).toMatchInlineSnapshot(`
      "<svg xmlns="http://www.w3.org/2000/svg" width="400" height="240" viewBox="0 0 400 240" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13">
      <title>Loss &#60;of two&#62;</title>
      <rect width="400" height="240" fill="#fff"/>
      <text x="72" y="26" font-size="17" font-weight="600" fill="#111">Loss &#60;of two&#62;</text>
      <line x1="72" y1="178.96" x2="376" y2="178.96" stroke="#e2e2e2"/>
      <text x="64" y="182.96" text-anchor="end" fill="#333">6.5</text>
      <line x1="72" y1="136.99" x2="376" y2="136.99" stroke="#e2e2e2"/>
      <text x="64" y="140.99" text-anchor="end" fill="#333">7.0</text>
      <line x1="72" y1="95.01" x2="376" y2="95.01" stroke="#e2e2e2"/>
      <text x="64" y="99.01" text-anchor="end" fill="#333">7.5</text>
      <line x1="72" y1="53.04" x2="376" y2="53.04" stroke="#e2e2e2"/>
      <text x="64" y="57.04" text-anchor="end" fill="#333">8.0</text>
      <line x1="72" y1="184" x2="72" y2="189" stroke="#333"/>
      <text x="72" y="204" text-anchor="middle" fill="#333">0</text>
      <line x1="122.67" y1="184" x2="122.67" y2="189" stroke="#333"/>
      <text x="122.67" y="204" text-anchor="middle" fill="#333">0.5</text>
      <line x1="173.33" y1="184" x2="173.33" y2="189" stroke="#333"/>
      <text x="173.33" y="204" text-anchor="middle" fill="#333">1.0</text>
      <line x1="224" y1="184" x2="224" y2="189" stroke="#333"/>
      <text x="224" y="204" text-anchor="middle" fill="#333">1.5</text>
      <line x1="274.67" y1="184" x2="274.67" y2="189" stroke="#333"/>
      <text x="274.67" y="204" text-anchor="middle" fill="#333">2.0</text>
      <line x1="325.33" y1="184" x2="325.33" y2="189" stroke="#333"/>
      <text x="325.33" y="204" text-anchor="middle" fill="#333">2.5</text>
      <line x1="376" y1="184" x2="376" y2="189" stroke="#333"/>
      <text x="376" y="204" text-anchor="middle" fill="#333">3.0</text>
      <path d="M72 48V184H376" fill="none" stroke="#333"/>
      <path d="M72 53.04L173.33 109L274.67 148.98L376 178.96" stroke="#0072b2" fill="none" stroke-width="2" stroke-linejoin="round"/>
      <path d="M72 53.04L173.33 100.61L274.67 134.59L376 160.07" stroke="#d55e00" stroke-dasharray="7 4" fill="none" stroke-width="2" stroke-linejoin="round"/>
      <rect x="270" y="52" width="98" height="52" fill="#fff" fill-opacity="0.85" stroke="#bbb"/>
      <path d="M280 68H312" stroke="#0072b2" stroke-width="2.5"/>
      <text x="320" y="72" text-anchor="start" fill="#333">bf16</text>
      <path d="M280 88H312" stroke="#d55e00" stroke-dasharray="7 4" stroke-width="2.5"/>
      <text x="320" y="92" text-anchor="start" fill="#333">nvfp4</text>
      <text x="224" y="226" text-anchor="middle" fill="#333">step</text>
      <text transform="translate(24 116) rotate(-90)" text-anchor="middle" fill="#333">nats</text>
      </svg>
      "
    `);
  });

  it("has a path for each stretch without a gap, and dots for single points and where asked", () => {
    const gap = [1, 2, Number.NaN, 3, Number.NaN, 4, 5].map((y, x) => ({ x, y }));
    const count = (text: string, tag: string) => text.split(`<${tag} `).length - 1;
    const empty = svgChart({ ...chart, series: [{ name: "a", points: [] }] });
    const drawn = svgChart({ ...chart, series: [{ name: "a", points: gap }] });
    expect(count(drawn, "path") - count(empty, "path")).toBe(3);
    expect(count(drawn, "circle")).toBe(1);
    expect(count(svgChart({ ...chart, series: [{ name: "a", points: gap, markers: true }] }), "circle")).toBe(5);
    expect(drawn).not.toContain("NaN");
  });

  it("has its legend where it hides the least", () => {
    const legendAt = (points: readonly Point[]) =>
      Number(
        /<rect x="([\d.]+)"[^>]*fill-opacity/.exec(svgChart({ ...chart, series: [{ name: "one", points }] }))?.[1],
      );
    expect(legendAt(line((x) => 1 / (1 + x)))).toBeGreaterThan(400);
    expect(legendAt(line((x) => x))).toBeLessThan(200);
  });

  it("keeps what is said out of the markup", () => {
    const drawn = svgChart({ ...chart, xLabel: 'a "<b>" & \u0000' });
    expect(drawn).toContain(">a &#34;&#60;b&#62;&#34; &#38;  </text>");
    expect(drawn).not.toContain("<b>");
    expect(drawn).not.toContain("\u0000");
  });
});

describe("compareRuns", () => {
  const bf16 = {
    name: "bf16",
    validationLoss: 4.2,
    bitsPerByte: 1.4,
    tokensPerSecond: 12345.6,
    mfu: 0.5,
    seconds: 105,
  };
  const nvfp4 = { ...bf16, name: "nvfp4", validationLoss: 4.242, tokensPerSecond: 9876, mfu: 0.4, seconds: 130 };

  it("sets runs side by side, with the gap to the first", () => {
    expect(compareRuns([bf16, nvfp4])).toMatchInlineSnapshot(`
      "                        bf16        nvfp4        gap
      ────────────────────────────────────────────────────
      validation loss       4.2000       4.2420    +1.00 %
      bits per byte         1.4000       1.4000     0.00 %
      tokens/s              12,346        9,876   −20.00 %
      MFU                   50.0 %       40.0 %
      time              1 min 45 s   2 min 10 s
      "
    `);
  });

  it("leaves out what no run has, and marks what one lacks", () => {
    const table = compareRuns([{ name: "a", validationLoss: 4 }, { name: "b" }]);
    expect(table).not.toContain("MFU");
    expect(table).toMatch(/validation loss +4\.0000 +–/);
    expect(compareRuns([])).toBe("");
  });

  it.each([
    [1.234, "+1.23 %"],
    [-0.5, "−0.50 %"],
    [-0.0001, "0.00 %"],
    [Number.NaN, "NaN"],
  ])("writes %d as %s", (value, text) => {
    expect(percent(value)).toBe(text);
  });
});
