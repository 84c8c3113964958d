/** How long something took, and how long the rest will take. */

/** "0.4 s", "12 s", "3 min 20 s", "2 h 05 min", "3 d 04 h". */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "?";
  if (seconds < 9.95) return `${Math.max(0, seconds).toFixed(1)} s`;
  const two = (n: number) => String(n).padStart(2, "0");
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${two(whole % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
}

const weightOfNew = 0.1;

/** Follows the time of a step and tells the time left. The first step, which may hold a compilation, counts only alone. */
export function stepTimer() {
  let steps = 0;
  let average = Number.NaN;
  return {
    add(seconds: number): void {
      steps++;
      // Until ten steps are known all weigh the same.
      const weight = Math.max(weightOfNew, 1 / Math.max(1, steps - 1));
      average = steps <= 2 ? seconds : average + weight * (seconds - average);
    },
    /** Seconds for `remaining` steps; NaN before the first. */
    left(remaining: number): number {
      return average * remaining;
    },
  };
}
