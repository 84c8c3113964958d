import { describe, expect, it } from "vitest";
import { type Curve, curves } from "../../bench/curveDefinitions.ts";
import type { PointCost } from "../../bench/curvePoint.ts";
import { cliffsOf, curveSvg, curvesText, type MeasuredCurve, neighbourRatios } from "../../bench/curveReport.ts";
import { configOf } from "../../bench/workload.ts";

const curveOf = (name: string): Curve => curves.find((curve) => curve.name === name)!;

/** A curve whose points cost what `costOf` says. */
function measured(name: string, costOf: (x: number, work: number) => Partial<PointCost>): MeasuredCurve {
  const curve = curveOf(name);
  const points = curve.points.map((point) => {
    const cost = costOf(point.x, curve.measure?.work(point.sizes) ?? 1);
    return { ...point, cost: { compileSeconds: 1, compileCpuSeconds: 2, plannedBytes: 2 ** 20, ...cost } };
  });
  return { curve, series: [{ name: "", points }] };
}

describe("cost curves", () => {
  it("have sizes that a model can have, uneven ones among them", () => {
    for (const { points } of curves) {
      for (const { sizes } of points) {
        expect(configOf(sizes).headDim % 2).toBe(0);
        expect(sizes.heads % sizes.kv).toBe(0);
        expect(sizes.ffn % 1).toBe(0);
      }
    }
    expect(curveOf("seq").points.map(({ x }) => x)).toEqual(expect.arrayContaining([500, 512, 513]));
    expect(new Set(curves.map(({ name }) => name)).size).toBe(curves.length);
  });

  it("compare neighbours by their work: in proportion to it they are equal", () => {
    const even = measured("seq", (_, work) => ({ seconds: work * 1e-12, cpuSeconds: 1 }));
    const ratios = neighbourRatios(even.curve, even.series[0]!);
    expect(ratios[0]).toBeUndefined();
    for (const ratio of ratios.slice(1)) expect(ratio).toBeCloseTo(1);
    expect(cliffsOf(even)).toEqual([]);
    expect(curvesText([even])).toContain("No neighbour costs more");
  });

  it("have a cliff where a neighbour costs half as much again for its work", () => {
    const steep = measured("seq", (x, work) => ({
      seconds: work * (x < 513 ? 1e-12 : 1.6e-12),
      cpuSeconds: work * 1e-12,
    }));
    expect(cliffsOf(steep)).toEqual(["seq: from 512 to 513 a FLOP costs 1.60 × as much, 1.00 × in CPU time"]);
    const text = curvesText([steep]);
    expect(text).toMatch(/^513 .* 1\.60 × cliff$/m);
    expect(text).toContain("Neighbours that cost more than 1.5 × as much for their work:\n  seq: from 512");
  });

  it("compare memory grown with memory planned, and leave out what was not measured", () => {
    const memory = measured("memory", (x) => ({ plannedBytes: x * 2 ** 20, grownBytes: x * 1.25 * 2 ** 20 }));
    const text = curvesText([memory]);
    expect(text).toMatch(/^512 +640\.0 +512\.0 +1\.25 /m);
    expect(text).not.toContain("s a step");
  });

  it("are drawn with both axes logarithmic; policies as bars", () => {
    const svg = curveSvg(measured("batch", (_, work) => ({ seconds: work * 1e-12 })));
    expect(svg.match(/<circle /g)).toHaveLength(curveOf("batch").points.length);
    expect(svg).toContain("in proportion to FLOPs");
    const bars = curveSvg(measured("remat", () => ({ grownBytes: 3 * 2 ** 20 })));
    expect(bars).toContain("minimal_with_context grown");
    expect(bars).toContain("3.0");
  });
});
