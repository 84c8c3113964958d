/** Which kind of model a path is, and what to give in place of one that is none. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { fileBeginning } from "../base/fileBeginning.ts";
import { checkpointsFolder, hasModelFiles, hasShards, listCheckpoints, readJsonObject } from "../checkpoint/index.ts";
import { isLfsPointer, lfsPointer } from "../checkpoint/safetensors.ts";
import { openGgufSource } from "./ggufSource.ts";
import { openHuggingFace } from "./huggingFaceSource.ts";
import { isRun, openRun } from "./runSource.ts";
import type { ModelSource } from "./source.ts";

/** @throws UserError that says what is wrong with a path */
type Refuse = (what: string) => never;

const whatToGive = "Give a Hugging Face folder, a GGUF file, a run's folder or one of its checkpoints";

/**
 * Opens a GGUF file, a Hugging Face folder, a run of Halfbyte or one of its checkpoints.
 * @param refuse throws what is wrong with the path
 * @throws UserError where it is none of these, or malformed
 */
export async function openSource(path: string, refuse: Refuse = refusing(path)): Promise<ModelSource> {
  const stat = statSync(path, { throwIfNoEntry: false }) ?? refuse(`there is no such file or folder. ${whatToGive}`);
  if (stat.isFile()) {
    refuseOtherFiles(path, refuse);
    return openGgufSource(path);
  }
  if (!stat.isDirectory()) refuse("it is no file and no folder");
  if (isRun(path)) return openRun(path);
  refuseOtherFolders(path, refuse);
  return openHuggingFace(path);
}

const refusing =
  (path: string): Refuse =>
  (what) => {
    throw new UserError("E_CHECKPOINT", `${path}: ${what}`);
  };

/** Files that people give for a model and that are none by themselves, told by how they begin; GGUF is read under any name. */
function refuseOtherFiles(path: string, refuse: Refuse): void {
  const begins = fileBeginning(path, 4);
  const text = begins.toString("latin1");
  const folder = dirname(path);
  if (text === "GGUF") return;
  if (isLfsPointer(begins)) refuse(lfsPointer);
  if (path.endsWith(".safetensors")) {
    const whole = existsSync(join(folder, "config.json")) || hasShards(folder, "params");
    refuse(
      whole
        ? `this is a file of weights: give the folder it is in, ${folder}`
        : `this is a file of weights, and ${folder} has no config.json that says what model they are of`,
    );
  }
  // A zip archive with a pickle in it, or a pickle itself.
  if (text.startsWith("PK") || begins[0] === 0x80) refuse(pickled(basename(path)));
  if (basename(path) === "config.json") refuse(`give the folder it is in, ${folder}`);
  if (path.endsWith(".gguf")) return;
  refuse(`it does not begin with "GGUF", so it is no GGUF file. ${whatToGive}`);
}

const pickled = (file: string): string =>
  `${file} holds PyTorch's pickle, which can run any program and is not read: load the model in transformers and save it again (save_pretrained), as safetensors`;

function refuseOtherFolders(path: string, refuse: Refuse): void {
  const has = (...names: string[]) => names.some((name) => existsSync(join(path, name)));
  if (listCheckpoints(path).length > 0) refuse(checkpointsFolder(path));
  if (has("adapter_config.json") && !hasModelFiles(path)) refuse(adapter(path));
  if (has("config.json")) return;
  if (hasModelFiles(path)) refuse("it has weights and no config.json, which says what model they are of");
  const names = readdirSync(path).sort();
  const gguf = names.find((name) => name.endsWith(".gguf"));
  if (gguf !== undefined) refuse(`give the file in it, ${join(path, gguf)}`);
  const pickle = names.find((name) => /\.(bin|pth?|ckpt)$/.test(name));
  if (pickle !== undefined) refuse(`it has no config.json, and ${pickled(pickle)}`);
  refuse(`it has no config.json. ${whatToGive}`);
}

function adapter(path: string): string {
  const { base_model_name_or_path: base } = readJsonObject(join(path, "adapter_config.json"));
  const model = typeof base === "string" ? ` (${base})` : "";
  return `it is an adapter (LoRA), which changes another model${model}: merge the two with peft (merge_and_unload), save the result with save_pretrained, and give that folder`;
}
