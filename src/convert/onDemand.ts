/** What the package exports of this stage, loaded when it is called: few programs that import the package convert models. */
import type { QuantizedModel, QuantizeModelOptions } from "../checkpoint/quantizeModel.ts";
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
