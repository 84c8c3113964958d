import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bestFitDecreasing } from "../../src/data/bestFit.ts";

const problems = fc.integer({ min: 1, max: 100 }).chain((capacity) =>
  fc.record({
    capacity: fc.constant(capacity),
    lengths: fc.array(fc.integer({ min: 1, max: capacity }), { maxLength: 120 }),
    most: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
  }),
);

/** The items of each bin. */
function binsOf(lengths: readonly number[], capacity: number, most?: number): number[][] {
  const { count, starts, items } = bestFitDecreasing(Int32Array.from(lengths), capacity, most);
  return Array.from({ length: count }, (_, bin) => [...items.slice(starts[bin], starts[bin + 1])]);
}

/** As written in a textbook: quadratic, and no numbers in common with the code above. */
function plainBestFit(lengths: readonly number[], capacity: number, most = Number.POSITIVE_INFINITY): number {
  const bins: { room: number; held: number }[] = [];
  for (const length of [...lengths].sort((a, b) => b - a)) {
    const [best] = bins.filter(({ room, held }) => room >= length && held < most).sort((a, b) => a.room - b.room);
    if (best === undefined) bins.push({ room: capacity - length, held: 1 });
    else Object.assign(best, { room: best.room - length, held: best.held + 1 });
  }
  return bins.length;
}

describe("best-fit decreasing", () => {
  it("puts every item into one bin, in which all fit, in their order", () => {
    fc.assert(
      fc.property(problems, ({ capacity, lengths, most }) => {
        const bins = binsOf(lengths, capacity, most);
        expect(bins.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
        for (const items of bins) {
          expect(items.length).toBeGreaterThan(0);
          expect(items.length).toBeLessThanOrEqual(most ?? lengths.length);
          expect(items.reduce((sum, i) => sum + lengths[i]!, 0)).toBeLessThanOrEqual(capacity);
          expect([...items].sort((a, b) => a - b)).toEqual(items);
        }
      }),
    );
  });

  it("needs as many bins as the rule written out", () => {
    fc.assert(
      fc.property(problems, ({ capacity, lengths }) => {
        expect(binsOf(lengths, capacity).length).toBe(plainBestFit(lengths, capacity));
      }),
    );
  });

  it("fills the room that is left least, not the first that would do", () => {
    // 6 and 5 leave 4 and 5; 4 goes to the first, 5 to the second.
    expect(binsOf([6, 5, 4, 5], 10).map((bin) => bin.join())).toEqual(["0,2", "1,3"]);
    expect(binsOf([33, 70, 66, 30], 100).map((bin) => bin.join())).toEqual(["1,3", "0,2"]);
  });
});
