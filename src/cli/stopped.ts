/** Commands that write one thing, whole or not at all, and stop at a signal. */

/** Thrown where a signal asks a command to stop. */
export class Stopped extends Error {
  readonly signal: NodeJS.Signals;
  constructor(signal: NodeJS.Signals) {
    super(signal);
    this.signal = signal;
  }
}

/** A function that throws once SIGINT or SIGTERM has come: what is half done is then removed on the way out. */
export function stopOnSignals(): () => void {
  let received: NodeJS.Signals | undefined;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      received = signal;
    });
  }
  return () => {
    if (received !== undefined) throw new Stopped(received);
  };
}

/** Says that nothing was written. Returns the exit code that shells give such an end. */
export function sayStopped({ signal }: Stopped): number {
  process.stderr.write(`${signal}: stopped; nothing was written\n`);
  return signal === "SIGINT" ? 130 : 143;
}
