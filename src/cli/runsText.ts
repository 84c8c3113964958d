/** Which runs there are, for commands that were given none. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { runFolder } from "../checkpoint/index.ts";
import { resolve } from "../config/index.ts";

/** What RUN may be. @param usage "halfbyte watch RUN" */
export function runsText(usage: string): string {
  const { baseOutputDirectory: base } = resolve({}, {}, { draft: true }).run;
  const runs = runsIn(base);
  return runs.length === 0
    ? `${usage}, where RUN is base_output_directory/run_name; there are none in ${base}`
    : `${usage}; newest first, the runs in ${base} are\n${runs.map((run) => `  ${run}\n`).join("")}`.trimEnd();
}

/** Folders in `base` that hold events, the one written last first; at most 20. */
function runsIn(base: string): string[] {
  if (!existsSync(base)) return [];
  return readdirSync(base)
    .map((name) => ({
      path: join(base, name),
      events: statSync(runFolder(base, name).events, { throwIfNoEntry: false }),
    }))
    .flatMap(({ path, events }) => (events === undefined ? [] : [{ path, time: events.mtimeMs }]))
    .sort((a, b) => b.time - a.time)
    .slice(0, 20)
    .map(({ path }) => path);
}
