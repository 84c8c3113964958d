/** All formats that are fuzzed. */
import { checkpointFormats } from "./checkpointFormats.ts";
import { dataFormats } from "./dataFormats.ts";
import type { FuzzFormat } from "./format.ts";
import { ggufFormat } from "./ggufFormat.ts";
import { modelFormats } from "./modelFormats.ts";
import { runFormats } from "./runFormats.ts";
import { tokenizerFormats } from "./tokenizerFormats.ts";

export const formats: readonly FuzzFormat[] = [
  ...modelFormats,
  ggufFormat,
  ...tokenizerFormats,
  ...checkpointFormats,
  ...runFormats,
  ...dataFormats,
];
