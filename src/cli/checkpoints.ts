/** `halfbyte checkpoints`: a run's checkpoints, each read to its last byte and held against its hashes. */
import { existsSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { megabytes } from "../base/byteSize.ts";
import { UserError } from "../base/errors.ts";
import {
  bestCheckpoint,
  bestRecordFault,
  type CheckedCheckpoint,
  checkCheckpoints,
  listCheckpoints,
  type RunFolder,
  runFolder,
  runOwner,
  unfinishedFolders,
} from "../checkpoint/index.ts";
import { type EventsRead, latestByStep, readEvents } from "../metrics/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { table } from "./inspectText.ts";
import { progressLine } from "./progressLine.ts";
import { runsText } from "./runsText.ts";

export const command: Command = {
  help: `Usage: halfbyte checkpoints RUN [--json]

Lists the checkpoints of a run and tells of each whether it is whole: every file there, with the size and the SHA-256 of its
manifest. All of them are read to the last byte (halfbyte train reads back to the newest whole one only); nothing is written.
Exits with 0 where all are whole, with 1 where one is not.

  RUN      folder of the run: base_output_directory/run_name; without it, the message lists those in runs
  --json   the same as one JSON object on standard output

Example: halfbyte checkpoints runs/books-nvfp4
`,
  async run(args) {
    const { words, flags } = parseArguments(args, { keys: [], maxWords: 1 });
    const [path] = words;
    if (path === undefined)
      throw new UserError("E_ARGUMENT", `the run's folder is missing: ${runsText("halfbyte checkpoints RUN")}`);
    const folder = folderOf(path);
    const events = existsSync(folder.events) ? readEvents(folder.events).events : [];
    const rows = await rowsOf(folder, events);
    const bestFault = runOwner(folder) === undefined ? faultOfBest(folder, rows, events) : undefined;
    const report: Report = {
      run: folder.path,
      ...(bestFault !== undefined && { bestFault }),
      checkpoints: rows,
      unfinished: unfinishedFolders(folder.checkpoints),
      newestWhole: rows.findLast(({ state }) => state === "whole")?.step ?? null,
    };
    const text = flags.has("json") ? `${JSON.stringify(report)}\n` : showReport(report, runOwner(folder));
    await new Promise((done) => process.stdout.write(text, done));
    return rows.every(({ state }) => state === "whole") ? 0 : 1;
  },
};

interface Row extends CheckedCheckpoint {
  readonly best: boolean;
  /** Nats a token of the step's batch, and of the validation after it; absent where the events don't tell. */
  readonly trainingLoss?: number;
  readonly validationLoss?: number;
}

interface Report {
  readonly run: string;
  readonly checkpoints: readonly Row[];
  /** Paths of those that were being written when their process ended. */
  readonly unfinished: readonly string[];
  readonly newestWhole: number | null;
  /** Why best.json does not tell which is the best, where it should. */
  readonly bestFault?: string;
}

/** @throws UserError where it is no run's, or the run has no checkpoint */
function folderOf(path: string): RunFolder {
  // Its folder of checkpoints stands for the run.
  const run = existsSync(join(path, "checkpoints")) ? path : dirname(resolve(path));
  const folder = runFolder(dirname(run), basename(run));
  const isRun = run === path || basename(resolve(path)) === "checkpoints";
  if (isRun && listCheckpoints(folder.checkpoints).length > 0) return folder;
  throw new UserError("E_RUN", `${path} has no checkpoints: give the folder of a run, base_output_directory/run_name`);
}

/** Why it is not known which is the best, where one should be. */
function faultOfBest(folder: RunFolder, rows: readonly Row[], events: EventsRead["events"]): string | undefined {
  const validated = rows.some(({ state, validationLoss }) => state === "whole" && validationLoss !== undefined);
  const begun = events.findLast(({ type }) => type === "start");
  const wanted = validated && begun?.type === "start" && begun.config.keep_best_checkpoint !== false;
  return existsSync(folder.bestRecord) || wanted ? bestRecordFault(folder) : undefined;
}

async function rowsOf(folder: RunFolder, events: EventsRead["events"]): Promise<Row[]> {
  const lossesOf = (type: "step" | "eval") => new Map(latestByStep(events, type).map(({ step, loss }) => [step, loss]));
  const [training, validation] = [lossesOf("step"), lossesOf("eval")];
  const best = bestCheckpoint(folder)?.step;
  const progress = progressLine();
  const rows: Row[] = [];
  for await (const checked of checkCheckpoints(folder.checkpoints, (done, of) =>
    progress.show(`hashing: ${Math.round((100 * done) / of)} % of ${megabytes(of)}`),
  )) {
    const { step } = checked;
    const [trainingLoss, validationLoss] = [training.get(step), validation.get(step)];
    rows.push({
      ...checked,
      best: step === best,
      ...(trainingLoss !== undefined && { trainingLoss }),
      ...(validationLoss !== undefined && { validationLoss }),
    });
  }
  progress.clear();
  return rows;
}

function showReport(
  { run, checkpoints, unfinished, newestWhole, bestFault }: Report,
  owner: number | undefined,
): string {
  const bytes = checkpoints.reduce((sum, row) => sum + row.bytes, 0);
  const count = `${checkpoints.length} checkpoint${checkpoints.length === 1 ? "" : "s"}`;
  const loss = (value: number | undefined) => value?.toFixed(4) ?? "";
  return [
    ...table(
      `${run}: ${count}, ${megabytes(bytes)}, every file read and hashed`,
      ["step", "training loss", "validation loss", "size", ""],
      checkpoints.map(({ step, trainingLoss, validationLoss, bytes, best, ...row }) => [
        String(step),
        loss(trainingLoss),
        loss(validationLoss),
        megabytes(bytes),
        `${stateText(row)}${best ? "; the best by validation" : ""}`,
      ]),
    ),
    ...unfinished.map((path) => `${path} was not finished: its process ended meanwhile`),
    ...(bestFault === undefined ? [] : [`${bestFault}: training that goes on chooses the best anew`]),
    newestWhole === null ? "none of them is whole" : `the newest that is whole is of step ${newestWhole}`,
    ...(owner === undefined ? [] : [`process ${owner} is training it: checkpoints come and go`]),
    "",
  ].join("\n");
}

function stateText({ state, fault }: Pick<Row, "state" | "fault">): string {
  return { whole: "whole", damaged: `NOT whole: ${fault}`, unknown: `not known: ${fault}` }[state];
}
