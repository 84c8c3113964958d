/** SIGINT and SIGTERM, and what the console says of them. */
import { StopSignals } from "../train/stop.ts";

/** Listens from now on: make it before the text is read and anything is compiled, which may take long. */
export function stopSignals(say: (text: string) => void): StopSignals {
  return new StopSignals({
    first: (signal) => say(`${signal}: finishing the step; once more leaves at once`),
    leaving: (signal, begun) =>
      say(
        begun
          ? `${signal} again: left at once; the same command resumes from the last checkpoint, where there is one`
          : `${signal}: left before a step was done; nothing is lost, and the same command starts again`,
      ),
  });
}
