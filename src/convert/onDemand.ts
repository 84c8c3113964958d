/** What the package exports of this stage, loaded when it is called: few programs that import the package convert models. */
import type { StartingParameters } from "../checkpoint/index.ts";
import type { QuantizedModel, QuantizeModelOptions } from "../checkpoint/quantizeModel.ts";
import type { LlamaConfig } from "../models/llama.ts";
import type { ConvertedModel, ConvertModelOptions } from "./convertModel.ts";

/**
 * Converts the model at `path` (a Hugging Face folder, a GGUF file, a run or checkpoint of Halfbyte) to the folder `output`.
 * @throws UserError where the source is malformed or has what the model here has not, before anything is written
 */
export async function convertModel(
  path: string,
  output: string,
  options: ConvertModelOptions = {},
): Promise<ConvertedModel> {
  return (await import("./convertModel.ts")).convertModel(path, output, options);
}

/**
 * Writes `output`, a folder, from a safetensors file, a Hugging Face folder, a run or one of its checkpoints. @throws UserError
 * before anything is written: where a weight has a NaN or an infinity, or a size that blocks do not divide
 */
export async function quantizeModel(
  path: string,
  output: string,
  options: QuantizeModelOptions,
): Promise<QuantizedModel> {
  return (await import("./quantizeModel.ts")).quantizeModel(path, output, options);
}

/**
 * Float32 weights on the host, of a run or one of its checkpoints, a Hugging Face folder or a GGUF file.
 * @throws UserError where there is none, it is malformed, or (E_LOAD_PARAMETERS, naming the keys to set) of another model than `config`
 */
export async function loadParameters(path: string, config: LlamaConfig): Promise<StartingParameters> {
  return (await import("./loadParameters.ts")).loadParameters(path, config);
}
