/** Rows of padding at the end of a vocabulary: in memory and in checkpoints of runs, never in what others read. */
import { type HostArray, hostArray } from "../core/index.ts";
import type { LlamaConfig, LlamaTree } from "./llama.ts";

/** Float32 parameters with as many rows of embedding and head as `config` has: padding is cut off, or added as zeros. */
export function withVocabularyRows(params: LlamaTree<HostArray>, config: LlamaConfig): LlamaTree<HostArray> {
  const { embed, head } = params;
  return { ...params, embed: withRows(embed, config), ...(head && { head: withRows(head, config) }) };
}

function withRows(array: HostArray, { vocabSize, paddedVocabSize = vocabSize, embDim }: LlamaConfig): HostArray {
  const [rows] = array.shape;
  if (rows === paddedVocabSize) return array;
  const data = new Float32Array(paddedVocabSize * embDim);
  data.set((array.data as Float32Array).subarray(0, vocabSize * embDim));
  return hostArray([paddedVocabSize, embDim], "float32", data);
}
