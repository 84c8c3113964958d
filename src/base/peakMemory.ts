/** The most memory that this process has held at once. */
import { readFileSync } from "node:fs";

/**
 * The highest resident size of this program so far, in bytes. Not getrusage's where the system has better: that starts at
 * the size of the process that started this one, of which a child is a copy until it runs its own program.
 */
export function peakMemory(): number {
  let status = "";
  try {
    status = readFileSync("/proc/self/status", "utf8");
  } catch {
    // Only Linux has it.
  }
  const kilobytes = /^VmHWM:\s*(\d+) kB/m.exec(status)?.[1];
  return kilobytes === undefined ? process.resourceUsage().maxRSS * 1024 : Number(kilobytes) * 1024;
}
