import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { expendableSteps } from "../../src/checkpoint/retention.ts";

const steps = Array.from({ length: 12 }, (_, i) => 5 * (i + 1));

describe("which checkpoints go", () => {
  it.each([
    ["none where all are to stay", {}, []],
    ["none where all are to stay, a period or not", { period: 20, best: 5 }, []],
    ["all but the newest", { last: 3 }, steps.slice(0, 9)],
    ["those of a period not", { last: 3, period: 20 }, [5, 10, 15, 25, 30, 35, 45]],
    ["the best one not", { last: 1, best: 15 }, [5, 10, 20, 25, 30, 35, 40, 45, 50, 55]],
    ["none where there are few", { last: 12 }, []],
  ])("%s", (_, retention, gone) => {
    expect(expendableSteps(steps, retention)).toEqual(gone);
  });

  it("never one of the newest, of the period, or the best; all others", () => {
    const retentions = fc.record({
      last: fc.integer({ min: 1, max: 20 }),
      period: fc.option(fc.integer({ min: 1, max: 60 }), { nil: undefined }),
      best: fc.option(fc.constantFrom(...steps), { nil: undefined }),
    });
    fc.assert(
      fc.property(retentions, ({ last, period, best }) => {
        const gone = expendableSteps(steps, { last, ...(period && { period }), ...(best && { best }) });
        const stays = (step: number, i: number) =>
          i >= steps.length - last || step === best || (period !== undefined && step % period === 0);
        expect(gone).toEqual(steps.filter((step, i) => !stays(step, i)));
      }),
    );
  });
});
