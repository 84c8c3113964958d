/** Other processes, as far as files that they left tell of them. */
import { readFileSync } from "node:fs";

/** When a process began, in the kernel's ticks; undefined where /proc does not tell. */
export function startOf(pid: number): string | undefined {
  try {
    // The second field, the program's name in parentheses, may hold spaces.
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

/** Whether there is such a process, one's own or another's. */
export function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
