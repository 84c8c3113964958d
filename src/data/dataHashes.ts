/** What tells one data set from another, wherever its files lie. */
import { createHash } from "node:crypto";
import { loadChatTemplate } from "../tokenizers/chatFiles.ts";
import type { OpenSource } from "./sources.ts";

/** SHA-256, hexadecimal, of all that a run on the data depends on, and of what explains a difference. */
export interface DataHashes {
  /** What training reads: tokens, and the weights of sources. */
  readonly tokens: string;
  /** What is held out of it for validation; absent where nothing is. */
  readonly split?: string;
  /** The tokens of validation data of their own; absent where there are none. */
  readonly validation?: string;
  /** The contents of the files that training reads. */
  readonly files: string;
  /** The chat template; absent where none is used. */
  readonly template?: string;
}

export function dataHashes(
  sources: readonly OpenSource[],
  { datasetType, tokenizerPath }: { readonly datasetType: string; readonly tokenizerPath: string },
): DataHashes {
  const training = sources.filter(({ train }) => train);
  const validation = sources.filter(({ train }) => !train);
  return {
    tokens: digest(training.map(({ hash, weight }) => [hash, weight])),
    ...(training.some(({ heldOut }) => heldOut) && { split: digest(training.map(({ heldOut }) => heldOut)) }),
    ...(validation.length > 0 && { validation: digest(validation.map(({ hash }) => hash)) }),
    files: digest(training.map(({ fileHashes }) => fileHashes)),
    ...(datasetType === "chat" && { template: loadChatTemplate(tokenizerPath).hash }),
  };
}

const digest = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("hex");
