/** Where the host's time goes in some steps, as a file that Perfetto and chrome://tracing show. */
import { writeFileSync } from "node:fs";
import { writing } from "../checkpoint/index.ts";

export interface ProfilePlan {
  /** Steps of this process before the traced ones: the first may warm something up. */
  readonly skipSteps: number;
  readonly steps: number;
}

/** Compiling where the precision changes; making the batch; handing the step over; waiting for its numbers; what comes before or after some steps. */
export type HostWork = "compile" | "data" | "dispatch" | "wait" | "save" | "evaluate" | "numerics";

export interface StepTrace {
  /** f's result. Its time is a bar on the host's track, where the step is traced. */
  during<T>(work: HostWork, step: number, f: () => T | Promise<T>): Promise<T>;
  /** A step's time on the device, in milliseconds of `performance.now()`. */
  onDevice(step: number, from: number, to: number): void;
  /** Writes what was traced. Returns a sentence on it; undefined where there is nothing, or it was written before. */
  write(): string | undefined;
}

/** Traces nothing. */
export const noTrace: StepTrace = { during: async (_, __, f) => f(), onDevice() {}, write: () => undefined };

const [host, device] = [1, 2];

/** @param firstStep the first one of this process @param path the file to write */
export function stepTrace({ skipSteps, steps }: ProfilePlan, firstStep: number, path: string): StepTrace {
  const [first, last] = [firstStep + skipSteps, firstStep + skipSteps + steps - 1];
  const bars: object[] = [];
  const seen = new Set<number>();
  const add = (track: number, name: string, step: number, from: number, to: number) => {
    if (step < first || step > last) return;
    seen.add(step);
    // Microseconds.
    bars.push({ name, ph: "X", pid: 1, tid: track, ts: 1000 * from, dur: 1000 * (to - from), args: { step } });
  };
  return {
    async during(work, step, f) {
      const from = performance.now();
      try {
        return await f();
      } finally {
        add(host, work, step, from, performance.now());
      }
    },
    onDevice: (step, from, to) => add(device, `step ${step}`, step, from, to),
    write() {
      if (bars.length === 0) return undefined;
      const names = [
        [host, "host"],
        [device, "device, from the end of the step before"],
      ].map(([tid, name]) => ({ name: "thread_name", ph: "M", pid: 1, tid, args: { name } }));
      const text = JSON.stringify({ displayTimeUnit: "ms", traceEvents: [...names, ...bars] });
      writing(path, () => writeFileSync(path, `${text}\n`));
      bars.length = 0;
      const which = [Math.min(...seen), Math.max(...seen)].join("–");
      return `trace of steps ${which}: ${path} (Perfetto and chrome://tracing show it)`;
    },
  };
}
