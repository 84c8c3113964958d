/**
 * Learning rates as functions of the step, in float64 on the host. The rate enters the compiled step as a scalar, so it
 * is a function of the step's number alone: a resumed run continues with the same bits.
 *
 * Step n, counted from 1, uses `learningRate(schedule, n)`: with warm-up the first step already moves.
 */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";

export const scheduleKinds = ["constant", "linear", "cosine", "wsd"] as const;
export type ScheduleKind = (typeof scheduleKinds)[number];

/** How the rate goes from its peak to its final value, as a function of u from 0 to 1; 1 is the peak, 0 the end. */
const decayShapes = {
  linear: (u: number) => 1 - u,
  cosine: (u: number) => 0.5 * (1 + Math.cos(Math.PI * u)),
  exponential: (u: number) => 2 * 0.5 ** u - 1,
  minus_sqrt: (u: number) => 1 - Math.sqrt(u),
} as const;
export type DecayStyle = keyof typeof decayShapes;
export const decayStyles = Object.keys(decayShapes) as readonly DecayStyle[];

/** What the rate is after the schedule's end. */
export const afterSchedule = ["zero", "final"] as const;

/** A resolved schedule: plain data that a checkpoint can hold. */
export interface Schedule {
  readonly peak: number;
  /** The rate rises linearly from 0 (step 0) to the peak (this step). */
  readonly warmupSteps: number;
  /** Absent: the peak is kept for ever. */
  readonly decay?: {
    readonly style: DecayStyle;
    /** Last step at the peak and first step at the final rate. */
    readonly start: number;
    readonly end: number;
    readonly final: number;
    /** The rate of all steps after `end`. */
    readonly after: number;
  };
}

/** The learning rate at step t. */
export function learningRate({ peak, warmupSteps, decay }: Schedule, t: number): number {
  if (t < warmupSteps) return (peak * t) / warmupSteps;
  if (decay === undefined || t <= decay.start) return peak;
  if (t > decay.end) return decay.after;
  const u = (t - decay.start) / (decay.end - decay.start);
  return decay.final + (peak - decay.final) * decayShapes[decay.style](u);
}

/** MaxText's settings; fractions are of the schedule's steps, and numbers of steps are rounded down. */
export interface ScheduleSettings {
  readonly kind: ScheduleKind;
  readonly learningRate: number;
  /** Steps of the run. */
  readonly steps: number;
  /** Length of the schedule; −1 (default) means `steps`. `constant` has no end. */
  readonly scheduleSteps?: number;
  /** The rate after the schedule: `zero` (default) or `final`. */
  readonly after?: (typeof afterSchedule)[number];
  readonly warmupStepsFraction?: number;
  /** The same as a number of steps, which counts where it is given. */
  readonly warmupSteps?: number;
  /** The last rate as a fraction of the peak. */
  readonly finalFraction?: number;
  /** `wsd` only: the share of the steps in which the rate falls, and how. */
  readonly decayStepsFraction?: number;
  readonly decayStyle?: DecayStyle;
}

/** The schedule that settings describe. Defaults are MaxText's. @throws UserError on values that make no schedule */
export function makeSchedule(settings: ScheduleSettings): Schedule {
  const { kind, learningRate: peak, steps, scheduleSteps = -1, warmupStepsFraction = 0.1 } = settings;
  const { finalFraction = 0.1, decayStepsFraction = 0.1, decayStyle = "linear", after = "zero" } = settings;
  oneOf("schedule", kind, scheduleKinds);
  oneOf("decay style", decayStyle, decayStyles);
  inRange("learning rate", peak, 0, Number.MAX_VALUE);
  inRange("warm-up fraction", warmupStepsFraction, 0, 1);
  inRange("final fraction", finalFraction, 0, 1);
  inRange("decay fraction", decayStepsFraction, 0, 1);
  const total = scheduleSteps === -1 ? steps : scheduleSteps;
  if (!Number.isInteger(total) || total < 1) {
    throw new UserError("E_SCHEDULE", `a schedule needs a positive whole number of steps; got ${total}`);
  }
  const { warmupSteps = Math.floor(total * warmupStepsFraction) } = settings;
  if (!Number.isInteger(warmupSteps) || warmupSteps < 0) {
    throw new UserError("E_SCHEDULE", `warm-up takes a whole number of steps from 0; got ${warmupSteps}`);
  }
  if (kind === "constant") return { peak, warmupSteps };
  const decaySteps = kind === "wsd" ? Math.floor(total * decayStepsFraction) : total - warmupSteps;
  const start = total - decaySteps;
  if (start < warmupSteps || warmupSteps > total) {
    throw new UserError(
      "E_SCHEDULE",
      `${warmupSteps} steps of warm-up and ${Math.max(0, decaySteps)} of decay do not fit in ${total}; lower one of them`,
    );
  }
  const style = kind === "wsd" ? decayStyle : kind;
  const final = peak * finalFraction;
  return { peak, warmupSteps, decay: { style, start, end: total, final, after: after === "final" ? final : 0 } };
}

function oneOf(what: string, value: string, known: readonly string[]): void {
  if (known.includes(value)) return;
  const near = nearest(value, known);
  throw new UserError(
    "E_SCHEDULE",
    `unknown ${what} "${value}"${near ? `. Did you mean "${near}"?` : `; known: ${known.join(", ")}`}`,
  );
}

function inRange(what: string, value: number, low: number, high: number): void {
  if (value >= low && value <= high) return;
  throw new UserError("E_SCHEDULE", `the ${what} must lie between ${low} and ${high}; got ${value}`);
}
