/**
 * Models from one form to another: Hugging Face folders, GGUF files, runs of Halfbyte. A form that is read is a `ModelSource`
 * (source.ts); openSource.ts tells which it is.
 */
export {
  type ConversionProgress,
  type ConvertedModel,
  type ConvertModelOptions,
  convertModel,
} from "./convertModel.ts";
export { loadParameters } from "./loadParameters.ts";
export { openSource } from "./openSource.ts";
export { quantizeModel } from "./quantizeModel.ts";
export { readParameters } from "./readParameters.ts";
export type { FileToWrite, ModelSource, SourceKind, SourceTensor, SourceTensors } from "./source.ts";
export type { Verification } from "./verify.ts";
