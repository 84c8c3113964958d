/** The events of a run that a command names by its folder. */
import { existsSync } from "node:fs";
import { basename, dirname } from "node:path";
import { UserError } from "../base/errors.ts";
import { runFolder } from "../checkpoint/index.ts";

/** @throws UserError where the folder is none of a run */
export function eventsFile(path: string): string {
  const { events } = runFolder(dirname(path), basename(path));
  if (!existsSync(events)) throw new UserError("E_RUN", `${path} is no folder of a run: it has no events.jsonl`);
  return events;
}
