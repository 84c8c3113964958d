/** A run's events as they come: those that are in the file, then each when its line is whole. */
import { closeSync, openSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseEventLine, type RunEvent, type Timed } from "./events.ts";

export interface FollowOptions {
  /** Asked at the end of the file: whether nobody writes to it any more. */
  readonly isOver: () => boolean;
  /** Between looks at the file; default 0.2. */
  readonly secondsBetween?: number;
}

/** Lines that hold no event are left out. Reads the file only; the run knows nothing of it. */
export async function* followEvents(path: string, options: FollowOptions): AsyncGenerator<Timed<RunEvent>> {
  const { isOver, secondsBetween = 0.2 } = options;
  const file = openSync(path, "r");
  try {
    const piece = Buffer.alloc(1 << 16);
    let rest = Buffer.alloc(0);
    // What is over is looked at once more: the last lines may have come in between.
    for (let over = false; ; ) {
      const bytes = readSync(file, piece, 0, piece.length, null);
      if (bytes === 0) {
        if (over) return;
        over = isOver();
        if (!over) await sleep(1000 * secondsBetween);
        continue;
      }
      over = false;
      rest = Buffer.concat([rest, piece.subarray(0, bytes)]);
      for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
        const event = parseEventLine(rest.subarray(0, end).toString());
        rest = rest.subarray(end + 1);
        if (event !== undefined) yield event;
      }
    }
  } finally {
    closeSync(file);
  }
}
