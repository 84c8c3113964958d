/** A vocabulary learned from text, remembered in the cache by the text's content. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TrainingTexts } from "../data/index.ts";
import { cacheFolder } from "../pjrt/index.ts";
import { saveTokenizer, trainBpe } from "../tokenizers/index.ts";

/** Another version of what makes the vocabulary gives another cache entry. */
const recipe = "byte-level BPE, 1";

/** The folder of a tokenizer of `vocabSize` tokens learned from the text. */
export async function cachedTokenizer(
  text: TrainingTexts,
  vocabSize: number,
  onProgress: (done: { readonly tokens: number; readonly of: number }) => void,
): Promise<{ readonly folder: string; readonly wasCached: boolean }> {
  const hash = createHash("sha256").update(`${recipe}\n${vocabSize}\n${await text.hash()}`);
  const folder = join(cacheFolder(), "tokenizers", hash.digest("hex").slice(0, 16));
  // The configuration is written last.
  if (existsSync(join(folder, "tokenizer_config.json"))) return { folder, wasCached: true };
  saveTokenizer(await trainBpe(text.texts(), vocabSize, { onProgress }), folder);
  return { folder, wasCached: false };
}
