/** Names of runs that are shown side by side. */
import { resolve, sep } from "node:path";

/** Of each folder the last parts of its path, as few as tell it from the others: "m1", or "runs/m1" and "old/m1". */
export function runLabels(paths: readonly string[]): string[] {
  const parts = paths.map((path) => resolve(path).split(sep));
  return parts.map((own, i) => {
    const others = parts.filter((_, j) => resolve(paths[j]!) !== resolve(paths[i]!));
    const label = (of: readonly string[], count: number) => of.slice(-count).join("/");
    let count = 1;
    while (count < own.length && others.some((other) => label(other, count) === label(own, count))) count++;
    return label(own, count);
  });
}
