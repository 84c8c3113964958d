/** Models quantized for inference, whatever they are stored as. */
import { type ModelFiles, openModelFiles } from "../checkpoint/modelFiles.ts";
import { type QuantizedModel, type QuantizeModelOptions, quantizeFiles } from "../checkpoint/quantizeModel.ts";
import type { SafetensorsFile } from "../checkpoint/safetensors.ts";
import { refuseExisting } from "../checkpoint/writeModelFiles.ts";
import { hostArray, type Spec, sizeOf } from "../core/index.ts";
import { isRun, openRun } from "./runSource.ts";
import { modelShape } from "./source.ts";

/**
 * Writes `output`, a folder, from a safetensors file, a Hugging Face folder, a run or one of its checkpoints. @throws UserError
 * before anything is written: where a weight has a NaN or an infinity, or a size that blocks do not divide
 */
export async function quantizeModel(
  path: string,
  output: string,
  options: QuantizeModelOptions,
): Promise<QuantizedModel> {
  refuseExisting(output);
  const model = await (isRun(path) ? openRunFiles(path) : openModelFiles(path));
  try {
    return await quantizeFiles(model, output, options);
  } finally {
    await model.close();
  }
}

/** A run's weights as one file of a model, with its config.json and tokenizer, without rows of padding. */
async function openRunFiles(path: string): Promise<ModelFiles> {
  const run = await openRun(path);
  const { config } = run.config;
  const specs = new Map(
    [...run.tensors].map(([name, { shape, dtype }]): [string, Spec] => [
      name,
      { shape: modelShape(name, shape, config), dtype },
    ]),
  );
  const readPart: SafetensorsFile["readPart"] = (name, begin, count) => run.tensors.get(name)!.readPart(begin, count);
  const read: SafetensorsFile["read"] = async (name) => {
    const { shape, dtype } = specs.get(name)!;
    return hostArray(shape, dtype, (await readPart(name, 0, sizeOf(shape))).data);
  };
  const { close } = run;
  const file: SafetensorsFile = { path: run.path, metadata: run.metadata, tensors: specs, read, readPart, close };
  return {
    ...{ path: run.path, files: [file], specs, notes: run.notes, config: run.json, others: run.files },
    ...{ read, readPart, close },
  };
}
