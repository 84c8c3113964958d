/** How long steps take, from when their losses arrive. */

/** Losses are seen when this thread gets to them, up to some milliseconds late and then several at once. */
const settledMs = 50;

export interface StepClock {
  /** A step begins. Does nothing while the clock runs: steps follow each other without a gap. */
  start(): void;
  /**
   * Seconds of the step that ended at `now` (ms): those since the end of the one before. Of steps shorter than 50 ms the
   * mean over the last ones that fill this time, since their ends are not seen more exactly.
   */
  lap(now: number): number;
  /** What follows is no part of a step. */
  pause(): void;
}

/** @param clock milliseconds of a monotonic clock, that of `lap` */
export function stepClock(clock: () => number = () => performance.now()): StepClock {
  /** The beginning, then the ends of steps since. */
  let times: number[] = [];
  return {
    start() {
      if (times.length === 0) times.push(clock());
    },
    lap(now) {
      if (times.length === 0) times.push(now);
      times.push(now);
      let from = times.length - 2;
      while (from > 0 && now - times[from]! < settledMs) from--;
      const seconds = (now - times[from]!) / 1000 / (times.length - 1 - from);
      times = times.slice(from);
      return seconds;
    },
    pause() {
      times = [];
    },
  };
}
