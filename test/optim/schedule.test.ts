import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { learningRate, makeSchedule, type Schedule, scheduleKinds } from "../../src/optim/index.ts";
import { goldenJson } from "../golden.ts";

interface GoldenSchedule {
  readonly name: string;
  readonly steps: readonly number[];
  readonly lr?: readonly number[];
}

/** The settings of the whole set: warm-up 10, 100 steps, decay 20, peak 3e-4, minimum 3e-5. */
const peak = 3e-4;
const decay = (style: NonNullable<Schedule["decay"]>["style"], start: number, final: number) => ({
  style,
  start,
  end: 100,
  final,
  after: final,
});
const ours: Readonly<Record<string, Schedule>> = {
  hf_cosine: { peak, warmupSteps: 10, decay: decay("cosine", 10, 0) },
  hf_cosine_no_warmup: { peak, warmupSteps: 0, decay: decay("cosine", 0, 0) },
  hf_cosine_min_lr: { peak, warmupSteps: 10, decay: decay("cosine", 10, 3e-5) },
  hf_linear: { peak, warmupSteps: 10, decay: decay("linear", 10, 0) },
  hf_constant_warmup: { peak, warmupSteps: 10 },
  hf_wsd_linear: { peak, warmupSteps: 10, decay: decay("linear", 80, 0) },
  hf_wsd_cosine: { peak, warmupSteps: 10, decay: decay("cosine", 80, 0) },
  "hf_wsd_1-sqrt": { peak, warmupSteps: 10, decay: decay("minus_sqrt", 80, 0) },
  megatron_constant: { peak, warmupSteps: 10 },
  megatron_linear: { peak, warmupSteps: 10, decay: decay("linear", 10, 3e-5) },
  megatron_cosine: { peak, warmupSteps: 10, decay: decay("cosine", 10, 3e-5) },
  megatron_cosine_no_warmup: { peak, warmupSteps: 0, decay: decay("cosine", 0, 3e-5) },
  megatron_wsd_linear: { peak, warmupSteps: 10, decay: decay("linear", 80, 3e-5) },
  megatron_wsd_cosine: { peak, warmupSteps: 10, decay: decay("cosine", 80, 3e-5) },
  megatron_wsd_exponential: { peak, warmupSteps: 10, decay: decay("exponential", 80, 3e-5) },
  megatron_wsd_minus_sqrt: { peak, warmupSteps: 10, decay: decay("minus_sqrt", 80, 3e-5) },
};

/** A kind Halfbyte does not have, and schedules of the weight decay. */
const notOurs = ["megatron_inverse-square-root", "megatron_weight_decay_linear", "megatron_weight_decay_cosine"];

/** Hugging Face's cosine rises again after its end, where ours stays. */
const risesAfterEnd = ["hf_cosine", "hf_cosine_no_warmup", "hf_cosine_min_lr"];

describe("schedules", () => {
  const goldens = goldenJson<GoldenSchedule[]>("08_lr/schedules");

  it("cover the golden set but for what is listed", () => {
    expect(goldens.map(({ name }) => name).sort()).toEqual([...Object.keys(ours), ...notOurs].sort());
  });

  it.each(Object.entries(ours))("%s", (name, schedule) => {
    const { steps, lr } = goldens.find((g) => g.name === name)!;
    steps.forEach((t, i) => {
      if (t > 100 && risesAfterEnd.includes(name)) return;
      // The two libraries order the same float64 operations differently: the last bits of the peak are the limit.
      expect(Math.abs(learningRate(schedule, t) - lr![i]!), `step ${t}`).toBeLessThan(2 ** -51 * peak);
    });
  });

  it("never start at 0: with 4 of 10 steps of warm-up, the first uses a quarter of the peak", () => {
    const schedule = makeSchedule({ kind: "cosine", learningRate: 1, steps: 10, warmupStepsFraction: 0.4 });
    const used = Array.from({ length: 10 }, (_, i) => learningRate(schedule, i + 1));
    expect(used.slice(0, 5)).toEqual([0.25, 0.5, 0.75, 1, expect.closeTo(0.9397, 4)]);
    expect(used[9]).toBeCloseTo(0.1, 12);
  });

  it("resolve the fractions of the settings", () => {
    const settings = { learningRate: 2, steps: 1000, warmupStepsFraction: 0.05, finalFraction: 0.5 };
    expect(makeSchedule({ ...settings, kind: "constant" })).toEqual({ peak: 2, warmupSteps: 50 });
    expect(makeSchedule({ ...settings, kind: "linear" })).toEqual({
      peak: 2,
      warmupSteps: 50,
      decay: { style: "linear", start: 50, end: 1000, final: 1, after: 0 },
    });
    const wsd = { ...settings, kind: "wsd", decayStepsFraction: 0.2, decayStyle: "minus_sqrt" } as const;
    expect(makeSchedule(wsd).decay).toEqual({ style: "minus_sqrt", start: 800, end: 1000, final: 1, after: 0 });
  });

  it("are 0 after a schedule shorter than the run", () => {
    const schedule = makeSchedule({ kind: "cosine", learningRate: 1, steps: 100, scheduleSteps: 50 });
    expect(learningRate(schedule, 50)).toBeCloseTo(0.1, 12);
    expect(learningRate(schedule, 51)).toBe(0);
  });

  it("stay between final rate and peak, and rise then fall", () => {
    const settings = fc.record({
      kind: fc.constantFrom(...scheduleKinds),
      learningRate: fc.double({ min: 1e-6, max: 1, noNaN: true }),
      steps: fc.integer({ min: 1, max: 300 }),
      warmupStepsFraction: fc.double({ min: 0, max: 0.5, noNaN: true }),
      finalFraction: fc.double({ min: 0, max: 1, noNaN: true }),
      decayStepsFraction: fc.double({ min: 0, max: 0.5, noNaN: true }),
      decayStyle: fc.constantFrom("linear", "cosine", "exponential", "minus_sqrt" as const),
    });
    fc.assert(
      fc.property(settings, (s) => {
        const schedule = makeSchedule(s);
        const slack = 1e-15 * s.learningRate;
        let last = 0;
        for (let t = 1; t <= s.steps; t++) {
          const rate = learningRate(schedule, t);
          const floor = t < schedule.warmupSteps ? 0 : s.learningRate * s.finalFraction;
          if (rate < floor - slack || rate > s.learningRate + slack) return false;
          if (t <= schedule.warmupSteps ? rate <= last : t > schedule.warmupSteps + 1 && rate > last + slack)
            return false;
          last = rate;
        }
        return true;
      }),
      { seed: 1 },
    );
  });

  it("refuse settings that make no schedule", () => {
    const base = { kind: "wsd", learningRate: 1, steps: 10 } as const;
    expect(() => makeSchedule({ ...base, warmupStepsFraction: 0.6, decayStepsFraction: 0.6 })).toThrow(/do not fit/);
    expect(() => makeSchedule({ ...base, kind: "cosin" as "cosine" })).toThrow(/Did you mean "cosine"/);
    expect(() => makeSchedule({ ...base, steps: 0 })).toThrow(/positive whole number/);
    expect(() => makeSchedule({ ...base, learningRate: Number.NaN })).toThrow(/learning rate/);
  });
});
