/** What tells one data set from another, wherever its files lie. */
import { createHash } from "node:crypto";
import { loadChatTemplate } from "../tokenizers/chatFiles.ts";
import type { OpenSource } from "./sources.ts";

/** SHA-256, hexadecimal, of all that a run on the data depends on, and of what explains a difference. */
export interface DataHashes {
  /** What training reads: tokens, and the weights of sources. */
  readonly tokens: string;
  /** The tokens alone, of the sources in their order. */
  readonly texts: string;
  /** The same in whatever order. */
  readonly sources: string;
  /** The sources' weights as they are written, "0.7;0.3"; absent where there are none. No hash. */
  readonly weights?: string;
  /** What is held out of it for validation; absent where nothing is. */
  readonly split?: string;
  /** The tokens of validation data of their own; absent where there are none. */
  readonly validation?: string;
  /** The same in whatever order. */
  readonly validationSources?: string;
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
    ...{ texts: hashOf(training), sources: hashOf(training, "sorted") },
    ...(training[0]?.weight !== undefined && { weights: training.map(({ weight }) => weight).join(";") }),
    ...(training.some(({ heldOut }) => heldOut) && { split: digest(training.map(({ heldOut }) => heldOut)) }),
    ...(validation.length > 0 && {
      validation: hashOf(validation),
      validationSources: hashOf(validation, "sorted"),
    }),
    files: digest(training.map(({ fileHashes }) => fileHashes)),
    ...(datasetType === "chat" && { template: loadChatTemplate(tokenizerPath).hash }),
  };
}

const hashOf = (sources: readonly OpenSource[], order: "given" | "sorted" = "given"): string => {
  const hashes = sources.map(({ hash }) => hash);
  return digest(order === "sorted" ? hashes.sort() : hashes);
};

const digest = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("hex");
