/** Weights that a run begins with, of whatever holds a model: a run or a checkpoint, a Hugging Face folder, a GGUF file. */
import { loadCheckpointWeights, type StartingParameters } from "../checkpoint/index.ts";
import { refusePath, requireSizes, sizesOf } from "../checkpoint/modelSizes.ts";
import type { LlamaConfig } from "../models/llama.ts";
import { withVocabularyRows } from "../models/vocabularyRows.ts";
import { openSource } from "./openSource.ts";
import { readParameters } from "./readParameters.ts";

/**
 * Float32 weights on the host. @param path a step folder, a run's folder (its newest whole checkpoint), a Hugging Face folder or a
 * GGUF file, quantized or not
 * @throws UserError where there is none, it is malformed, or (E_LOAD_PARAMETERS, naming the keys to set) of another model than `config`
 */
export async function loadParameters(path: string, config: LlamaConfig): Promise<StartingParameters> {
  const ofCheckpoint = await loadCheckpointWeights(path, config);
  if (ofCheckpoint !== undefined) return ofCheckpoint;
  const given = { key: "load_parameters_path", path } as const;
  const source = await openSource(path, (what) => refusePath(given, what));
  try {
    requireSizes(given, sizesOf(source.config.config), config, source.tokenizerPath);
    const params = withVocabularyRows(await readParameters(source), config);
    const decoded = source.quantized ? ["its weights are quantized; training goes on from what they decode to"] : [];
    return { params, from: source.path, notes: [...(source.notes ?? []), ...decoded] };
  } finally {
    await source.close();
  }
}
