/** What the set-up shows: finished steps as lines, the running one as a line that is redrawn on a terminal. */

/** @typedef {{ say: (line: string) => void, show: (line: string) => void }} Progress */

/** How often a running step is reported where lines can't be redrawn (a log file, CI). */
const PLAIN_INTERVAL_MS = 10_000;

/**
 * @param {NodeJS.WriteStream} stream
 * @returns {Progress} `say` prints a line for good; `show` prints a passing state
 */
export function progressOn(stream) {
  let drawn = false;
  let lastPlain = Date.now();
  return {
    say(line) {
      stream.write(`${drawn ? "\r\x1b[K" : ""}${line}\n`);
      drawn = false;
      lastPlain = Date.now();
    },
    show(line) {
      if (stream.isTTY) {
        stream.write(`\r\x1b[K${line.slice(0, (stream.columns || 80) - 1)}`);
        drawn = true;
      } else if (Date.now() - lastPlain >= PLAIN_INTERVAL_MS) {
        stream.write(`${line}\n`);
        lastPlain = Date.now();
      }
    },
  };
}

/** @param {number} bytes */
export function megabytes(bytes) {
  return Math.round(bytes / 1e6);
}

/** @param {number} since a `performance.now()` */
export function secondsSince(since) {
  return Number(((performance.now() - since) / 1000).toFixed(1));
}
