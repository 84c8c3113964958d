/**
 * SIGINT and SIGTERM. The first one asks a run to finish its step, save and end; a second one, or any before there is
 * something to save, leaves at once.
 */
import { releaseRunLocks } from "../checkpoint/index.ts";
import { exitNow } from "../pjrt/index.ts";

export type StopSignal = "SIGINT" | "SIGTERM";

/** What a run looks at between steps. */
export interface StopRequest {
  readonly signal: StopSignal | undefined;
  /** From now on there are steps worth saving. */
  holdOff(): void;
  /** `last` is called where the process is about to leave at once, with the run unfinished. */
  beforeLeaving(last: (signal: StopSignal) => void): void;
}

export const exitCodeOf = (signal: StopSignal): number => (signal === "SIGINT" ? 130 : 143);

/** Never stops: for runs inside another program. */
export const neverStop: StopRequest = { signal: undefined, holdOff() {}, beforeLeaving() {} };

/** What is told of signals. */
export interface SignalTeller {
  /** The run is ending. */
  first(signal: StopSignal): void;
  /** The process leaves at once. @param begun whether there were steps to save */
  leaving(signal: StopSignal, begun: boolean): void;
}

/** Listens for the signals until `close()`. */
export class StopSignals implements StopRequest {
  signal: StopSignal | undefined;
  #holdsOff = false;
  #last: (signal: StopSignal) => void = () => {};
  readonly #handlers: Readonly<Record<StopSignal, () => void>>;

  readonly #tell: SignalTeller;

  constructor(tell: SignalTeller) {
    this.#tell = tell;
    const handler = (signal: StopSignal) => () => {
      if (!this.#holdsOff || this.signal !== undefined) this.#leave(signal);
      this.signal = signal;
      tell.first(signal);
    };
    this.#handlers = { SIGINT: handler("SIGINT"), SIGTERM: handler("SIGTERM") };
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, this.#handlers[signal]);
  }

  holdOff(): void {
    this.#holdsOff = true;
  }

  beforeLeaving(last: (signal: StopSignal) => void): void {
    this.#last = last;
  }

  #leave(signal: StopSignal): void {
    try {
      this.#tell.leaving(signal, this.#holdsOff);
      this.#last(signal);
    } finally {
      releaseRunLocks();
      exitNow(exitCodeOf(signal));
    }
  }

  close(): void {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, this.#handlers[signal]);
  }
}
