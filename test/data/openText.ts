/** A data set with the byte tokenizer, in a cache of the test's own. */
import { onTestFinished, vi } from "vitest";
import { type Dataset, type DatasetSettings, type OpenDatasetOptions, openDataset } from "../../src/data/index.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

/** Gives this test a cache of its own. @returns its folder of tokens */
export function ownCache(): string {
  const folder = temporaryFolder();
  vi.stubEnv("HALFBYTE_CACHE", folder);
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  return `${folder}/tokens`;
}

/** Opens and closes with the test. */
export async function openText(
  changes: Partial<DatasetSettings>,
  options: Partial<OpenDatasetOptions> = {},
): Promise<Dataset> {
  const settings: DatasetSettings = {
    ...{ datasetType: "text", datasetPath: "", evalDatasetPath: "", validationFraction: 0, tokenizerPath: "byte" },
    ...{ maxTargetLength: 8, perDeviceBatchSize: 1 },
    ...changes,
  };
  const data = await openDataset(settings, { vocabSize: 257, shuffleSeed: 0, ...options });
  onTestFinished(() => data.close?.());
  return data;
}

/** Tokens and their targets, of the targets that count, with bytes as text and the end as "|". */
export function textsOf(
  batches: Iterable<{
    readonly targets: { readonly data: ArrayLike<number | bigint> };
    readonly mask?: { readonly data: ArrayLike<number | bigint> };
  }>,
): string {
  let text = "";
  for (const { targets, mask } of batches) {
    for (let i = 0; i < targets.data.length; i++) {
      if (mask !== undefined && mask.data[i] !== 1) continue;
      const id = Number(targets.data[i]);
      text += id === 256 ? "|" : String.fromCharCode(id);
    }
  }
  return text;
}

/** The targets of all validation batches in order. */
export const validationText = ({ validation }: Dataset): string =>
  textsOf(Array.from({ length: validation!.batches }, (_, i) => validation!.batchAt(i)));
