/** One line on a terminal's standard error that is written over, a few times a second at most; nothing elsewhere. */
export interface ProgressLine {
  show(text: string): void;
  clear(): void;
}

export function progressLine(secondsBetween = 0.2): ProgressLine {
  let last = Number.NEGATIVE_INFINITY;
  let shown = false;
  return {
    show(text) {
      if (!process.stderr.isTTY || performance.now() - last < 1000 * secondsBetween) return;
      last = performance.now();
      shown = true;
      process.stderr.write(`\r\x1b[K${text.slice(0, (process.stderr.columns ?? 80) - 1)}`);
    },
    clear() {
      if (shown) process.stderr.write("\r\x1b[K");
      shown = false;
    },
  };
}
