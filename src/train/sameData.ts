/** The data of a run that goes on: those it began with, wherever their files lie now. */
import { UserError } from "../base/errors.ts";
import type { Progress, RunFolder } from "../checkpoint/index.ts";
import type { DataHashes, Dataset } from "../data/index.ts";
import { sameShares } from "../data/mixture.ts";
import { findChatTemplate, loadTokenizer } from "../tokenizers/index.ts";

/** Hashes of the data and of what made their tokens; data made by a rule have none. */
export function dataIdentity({ tokenizer, hashes }: Dataset): Progress["data"] {
  return { ...(tokenizer && { tokenizer: tokenizer.hash }), ...hashes };
}

export interface DataOfRun {
  readonly data: Dataset;
  readonly folder: Pick<RunFolder, "path" | "tokenizer">;
  /** The resolved keys. */
  readonly keys: Readonly<Record<string, unknown>>;
  /** Paths that are others than when the run began. */
  readonly moved?: readonly { readonly key: string; readonly before?: unknown }[];
}

type Part = keyof DataHashes | "tokenizer";

/** What must be known of what a path held, to tell that it was only moved. */
const partsOf: Readonly<Record<string, readonly Part[]>> = {
  dataset_path: ["tokens", "split"],
  eval_dataset_path: ["validation"],
  tokenizer_path: ["tokenizer"],
};

/** @throws UserError where a run would go on with other data than it began with, telling what of them changed */
export function refuseOtherData(saved: Progress["data"], { data, folder, keys, moved = [] }: DataOfRun): void {
  const now = dataIdentity(data);
  const refuse = (problem: string, fix = "Put back what it was"): never => {
    throw new UserError(
      "E_RESUME",
      `${folder.path} can't be resumed: ${problem}. ${fix}, or choose another run_name; load_full_state_path=${folder.path} begins a run on other data with its whole state`,
    );
  };
  const setting = (key: string) => `${key}=${keys[key]}`;
  const changed = (part: Part) => saved[part] !== now[part];
  // Earlier checkpoints tell less.
  const isOther = (part: Part) => saved[part] !== undefined && changed(part);
  const hashes = (part: Part) => `hash ${short(now[part])}; the run began with ${short(saved[part])}`;

  const refuseOrder = (key: string) => {
    const before = moved.find((one) => one.key === key)?.before;
    const was = before === undefined ? "" : `, ${key}=${before}`;
    refuse(`the sources of ${setting(key)} are in another order than it began with${was}`, "Put back their order");
  };

  if (changed("tokenizer")) {
    const kept = attempt(() => loadTokenizer(folder.tokenizer).hash) === saved.tokenizer;
    refuse(`${setting("tokenizer_path")} is another tokenizer (${hashes("tokenizer")})`, fixBy(folder, kept));
  }
  if ((changed("tokens") || isOther("validation")) && isOther("template")) {
    const kept = attempt(() => findChatTemplate(folder.tokenizer)?.hash) === saved.template;
    const files = isOther("files") ? `; the training files of ${setting("dataset_path")} changed too` : "";
    refuse(
      `the chat template of ${setting("tokenizer_path")} changed (${hashes("template")})${files}`,
      fixBy(folder, kept),
    );
  }
  const sameTexts = saved.texts !== undefined && !changed("texts");
  const weights = [saved.weights, now.weights].map((given) => (given === undefined ? undefined : String(given)));
  const otherTokens = changed("tokens") && !(sameTexts && sameShares(weights[0], weights[1]));
  if (otherTokens && sameTexts) {
    const [before, after] = weights.map((given) => given ?? "none, so that its sources' sizes decided");
    refuse(
      `the weights of ${setting("dataset_path")} changed: they were ${before}, and are ${after}`,
      "Put back what they were",
    );
  }
  if (otherTokens && saved.sources !== undefined && !changed("sources")) {
    refuseOrder("dataset_path");
  }
  if (otherTokens) {
    refuse(
      saved.files === undefined || isOther("files")
        ? `the training text gives other tokens: the files of ${setting("dataset_path")} have changed (${hashes("tokens")})`
        : `the training text gives other tokens (${hashes("tokens")}), though its files have not changed: another version of Halfbyte made them`,
    );
  }
  if (isOther("split")) {
    refuse(
      `other documents of ${setting("dataset_path")} are held out for validation: files were renamed, or lie elsewhere within it`,
    );
  }
  if (isOther("validation") && saved.validationSources !== undefined && !changed("validationSources")) {
    refuseOrder("eval_dataset_path");
  }
  if (isOther("validation")) {
    refuse(
      `the validation text gives other tokens: the files of ${setting("eval_dataset_path")} have changed (${hashes("validation")})`,
    );
  }
  for (const { key, before } of moved) {
    const unknown = partsOf[key]?.some((part) => (part === "tokens" ? otherTokens : changed(part)));
    if (unknown)
      refuse(
        `its checkpoint does not tell whether ${setting(key)} holds what ${before} held`,
        `Set ${key}=${before} again`,
      );
  }
}

const short = (hash: string | number | undefined): string => (hash === undefined ? "none" : String(hash).slice(0, 12));

const fixBy = ({ tokenizer }: DataOfRun["folder"], kept: boolean): string =>
  kept ? `Set tokenizer_path=${tokenizer}, which is the one it began with` : "Put back what it was";

/** Undefined where that can't be read, as of a folder that is gone. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
