/** `halfbyte watch`: shows a run while it goes, from another terminal. */
import { basename, dirname } from "node:path";
import { UserError } from "../base/errors.ts";
import { runFolder, runOwner } from "../checkpoint/index.ts";
import { type EventOf, followEvents } from "../metrics/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { eventsFile } from "./eventsFile.ts";
import { type RunConsole, runConsole } from "./runConsole.ts";
import { runsText } from "./runsText.ts";

export const command: Command = {
  help: `Usage: halfbyte watch RUN [--json]

Shows a run from its beginning and follows it until it ends, as the terminal does in which it was started. It only reads
the run's events.jsonl, of which every line is whole: tail -f, or any other reader, can follow it too. Exits with 0 when
the run is done or was interrupted, with 1 when it failed or its process is gone.

  RUN      folder of the run: base_output_directory/run_name; without it, the message lists those in runs
  --json   one event a line on standard output, the text for people on standard error

Example: halfbyte watch runs/books-nvfp4
`,
  async run(args) {
    const { words, flags } = parseArguments(args, { keys: [], maxWords: 1 });
    const [path] = words;
    if (path === undefined)
      throw new UserError("E_ARGUMENT", `the run's folder is missing: ${runsText("halfbyte watch RUN")}`);
    const folder = runFolder(dirname(path), basename(path));

    const json = flags.has("json");
    let view: RunConsole = runConsole({ json, steps: Number.POSITIVE_INFINITY, logPeriod: 1 });
    let end: EventOf<"end"> | undefined;
    for await (const event of followEvents(eventsFile(path), { isOver: () => runOwner(folder) === undefined })) {
      if (event.type === "start") view = viewOf(event, json);
      view.event(event);
      end = event.type === "end" ? event : undefined;
    }
    if (end === undefined) view.say("the run stopped without an end: its process is gone");
    else view.say(`${end.reason} after step ${end.step}${end.message === undefined ? "" : `: ${end.message}`}`);
    return end === undefined || end.reason === "failed" ? 1 : 0;
  },
};

function viewOf({ config }: EventOf<"start">, json: boolean): RunConsole {
  const { steps = Number.POSITIVE_INFINITY, log_period = 1 } = config as Readonly<Record<string, number>>;
  return runConsole({ json, steps, logPeriod: log_period });
}
