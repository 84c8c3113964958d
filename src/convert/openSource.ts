/** Which kind of model a path is. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { listCheckpoints } from "../checkpoint/index.ts";
import { openGgufSource } from "./ggufSource.ts";
import { openHuggingFace } from "./huggingFaceSource.ts";
import { isRun, openRun } from "./runSource.ts";
import type { ModelSource } from "./source.ts";

/**
 * Opens a GGUF file, a Hugging Face folder, a run of Halfbyte or one of its checkpoints.
 * @throws UserError where it is none of these, or malformed
 */
export async function openSource(path: string): Promise<ModelSource> {
  const refuse = (what: string): never => {
    throw new UserError("E_CHECKPOINT", `${path}: ${what}`);
  };
  const stat = statSync(path, { throwIfNoEntry: false }) ?? refuse("there is no such file or folder");
  if (stat.isFile()) {
    if (path.endsWith(".safetensors")) refuse(`without its config.json: give the folder it is in, ${dirname(path)}`);
    return openGgufSource(path);
  }
  if (!stat.isDirectory()) refuse("it is no file and no folder");
  if (isRun(path)) return openRun(path);
  if (listCheckpoints(path).length > 0)
    refuse(`these are a run's checkpoints: give the run's folder, ${dirname(path)}`);
  const gguf = readdirSync(path).find((name) => name.endsWith(".gguf"));
  if (!existsSync(join(path, "config.json")) && gguf !== undefined) {
    refuse(`give the file in it, ${join(path, gguf)}`);
  }
  if (!existsSync(join(path, "config.json"))) {
    refuse("it has no config.json. Give a Hugging Face folder, a GGUF file, a run's folder or one of its checkpoints");
  }
  return openHuggingFace(path);
}
