/**
 * Whether a folder is a whole checkpoint: as its manifest says, which must list all that a checkpoint is made of, and of the
 * step that its name tells.
 */
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { onlyWriter, type ShardStem, shardName, shardsAmong } from "./processShards.ts";
import { faultOf, looksWhole, manifestName, manifestOf, unreadable } from "./wholeFolder.ts";

const stateName = "state.json";

/**
 * Why a folder is no whole checkpoint; undefined where it is. One that is not called after a step, or has a config.json as
 * `halfbyte convert` writes it, may be of weights alone.
 * @param onRead told how many bytes were read since the last time
 * @throws UserError where that can't be told, because the system can't read a file and nothing is wrong with the others
 */
export async function checkpointFault(folder: string, onRead?: (bytes: number) => void): Promise<string | undefined> {
  return listFault(folder) ?? (await faultOf(folder, onRead)) ?? stepFault(folder);
}

/** The same by names and sizes; contents are not read. What the system can't read does not look whole. */
export function looksLikeCheckpoint(folder: string): boolean {
  try {
    return listFault(folder) === undefined && looksWhole(folder) && stepFault(folder) === undefined;
  } catch {
    return false;
  }
}

/** What is wrong with the manifest, or lacks in it. */
function listFault(folder: string): string | undefined {
  const files = manifestOf(folder);
  if (typeof files === "string") return files;
  const listed = Object.keys(files);
  const isState = stepOfName(folder) !== undefined && !listed.includes("config.json");
  const stems: readonly ShardStem[] = isState ? ["params", "optimizer"] : ["params"];
  for (const stem of stems) {
    const shards = shardsAmong(listed, stem);
    if (typeof shards === "string") return `${manifestName} is damaged: of its files ${shards}`;
    if (shards.length === 0) return `${manifestName} does not list ${shardName(stem, onlyWriter)}`;
  }
  const unlisted = [...(isState ? [stateName] : []), ...ownFiles(folder)].find((name) => !listed.includes(name));
  return unlisted && `${manifestName} does not list ${unlisted}`;
}

/** Of what is there, what would be loaded. */
function ownFiles(folder: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    return unreadable(folder, error);
  }
  return names.filter((name) => name === stateName || /^(params|optimizer)(-\d+-of-\d+)?\.safetensors$/.test(name));
}

/** Of a folder whose files are what they were: whether it is the one of the step. */
function stepFault(folder: string): string | undefined {
  const wanted = stepOfName(folder);
  if (wanted === undefined || !existsSync(join(folder, stateName))) return undefined;
  const step = stepOfState(join(folder, stateName));
  if (step === wanted) return undefined;
  return step === undefined
    ? `${stateName} tells no step`
    : `${stateName} is of step ${step}: the folder is a copy of that step's, or was renamed`;
}

/** The step that a folder is called after: in its place, or behind a link such as `best`. */
function stepOfName(folder: string): number | undefined {
  const [, step] = stepPattern.exec(basename(folder)) ?? stepPattern.exec(basename(realpathSync(folder))) ?? [];
  return step === undefined ? undefined : Number(step);
}

const stepPattern = /^step-(\d+)$/;

function stepOfState(path: string): number | undefined {
  try {
    const { step } = JSON.parse(readFileSync(path, "utf8")) as { step?: unknown };
    return typeof step === "number" ? step : undefined;
  } catch {
    return undefined;
  }
}
