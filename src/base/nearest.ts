/** "Did you mean": the closest known name by edit distance. */

/** Levenshtein distance of two strings. */
export function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(previous[j]! + 1, row[j - 1]! + 1, substitution));
    }
    previous = row;
  }
  return previous[b.length]!;
}

/** What is longer is no name that somebody mistyped; distances take time by the product of the lengths. */
const longestName = 200;

/** The candidate nearest to `name`, or undefined where none is near enough to be a plausible slip. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > longestName) return undefined;
  const plain = (s: string) => s.toLowerCase().replace(/[-_.\s]/g, "");
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.ceil(name.length * 0.4)) + 1;
  for (const candidate of candidates) {
    if (candidate.length > longestName) continue;
    const distance = editDistance(plain(name), plain(candidate));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}
