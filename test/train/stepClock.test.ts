import { describe, expect, it } from "vitest";
import { stepClock } from "../../src/train/stepClock.ts";

describe("the clock of steps", () => {
  const laps = (begin: number, ends: readonly number[]): number[] => {
    const clock = stepClock(() => begin);
    clock.start();
    return ends.map((end) => Math.round(1e6 * clock.lap(end)) / 1e6);
  };

  it("takes each step that is long enough by itself", () => {
    expect(laps(0, [100, 300, 360])).toEqual([0.1, 0.2, 0.06]);
  });

  it("takes the mean of short steps whose losses are seen together", () => {
    // Steps of 10 ms; their ends are seen in pairs.
    const seen = [20, 20.01, 40, 40.01, 60, 60.01, 80, 80.01, 100, 100.01];
    const found = laps(0, seen);
    expect(found.slice(4).every((seconds) => seconds > 0.008 && seconds < 0.014)).toBe(true);
    expect(laps(0, [3, 6, 9])).toEqual([0.003, 0.003, 0.003]);
  });

  it("begins anew after a pause", () => {
    let now = 0;
    const clock = stepClock(() => now);
    clock.start();
    expect(clock.lap(60)).toBe(0.06);
    clock.pause();
    now = 1000;
    clock.start();
    clock.start();
    expect(clock.lap(1100)).toBeCloseTo(0.1);
  });
});
