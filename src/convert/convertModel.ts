/**
 * A model in another form, a part of a tensor at a time: memory holds some megabytes, whatever the model's size. The output is
 * whole or not there.
 */
import { constants } from "node:fs";
import { copyFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { indexName, openModelFiles } from "../checkpoint/modelFiles.ts";
import { openSafetensors, type StreamedArray, writeSafetensors } from "../checkpoint/safetensors.ts";
import {
  type FileRecord,
  removeLeftovers,
  writeFolder,
  writeJson,
  writeWholeFolder,
} from "../checkpoint/wholeFolder.ts";
import { refuseExisting, tokenizerNotes } from "../checkpoint/writeModelFiles.ts";
import { byteLength, type DType, type Spec, sizeOf } from "../core/index.ts";
import type { StoredDType } from "../models/hfConfig.ts";
import { castParts } from "./castPart.ts";
import { openSource } from "./openSource.ts";
import { paramsName } from "./runSource.ts";
import { shardsOf } from "./shards.ts";
import {
  type ModelSource,
  modelShape,
  modelValues,
  type SourceKind,
  type SourceTensor,
  type SourceTensors,
} from "./source.ts";
import { type Verification, verifyConversion } from "./verify.ts";

/** What to write, and how. */
export interface ConvertModelOptions {
  /** What to write: a Hugging Face folder, or a folder that `load_parameters_path` takes. Default: huggingface. */
  readonly to?: "huggingface" | "halfbyte";
  /**
   * Of all weights. Default: each as it is stored; bfloat16 of a model with quantized weights, whose values are float32. With
   * to=halfbyte it is float32.
   */
  readonly dtype?: StoredDType;
  /** Largest file of weights in bytes. Default: 5 GB. */
  readonly maxShardBytes?: number;
  /** Compare logits before and after. */
  readonly verify?: boolean;
  /** Called often. @throws to stop */
  readonly onProgress?: (progress: ConversionProgress) => void;
}

/** What is done: bytes that are written, or layers whose logits are computed. */
export interface ConversionProgress {
  readonly stage: "writing weights" | "comparing logits";
  readonly done: number;
  readonly of: number;
}

/** What was read and what was written. */
export interface ConvertedModel {
  readonly from: SourceKind;
  /** What was read: the folder of the weights, or the file. */
  readonly source: string;
  readonly to: "huggingface" | "halfbyte";
  /** What config.json says: that of all weights, or of most of them where each kept its own. */
  readonly dtype: StoredDType;
  readonly tensors: number;
  readonly parameters: number;
  /** Bytes of the files of weights. */
  readonly bytes: number;
  readonly shards: number;
  /** Other files that were written. */
  readonly files: readonly string[];
  /** Entries of the source that hold nothing of the model and were left out. */
  readonly dropped: readonly string[];
  /** What a person may not expect of what was read and written. */
  readonly notes: readonly string[];
  readonly verification?: Verification;
}

const defaultShardBytes = 5e9;

/**
 * Converts the model at `path` (a Hugging Face folder, a GGUF file, a run or checkpoint of Halfbyte) to the folder `output`.
 * @throws UserError where the source is malformed or has what the model here has not, before anything is written
 */
export async function convertModel(
  path: string,
  output: string,
  options: ConvertModelOptions = {},
): Promise<ConvertedModel> {
  refuseExisting(output);
  const source = await openSource(path);
  try {
    return await convertOpened(source, output, options);
  } finally {
    await source.close();
  }
}

async function convertOpened(
  source: ModelSource,
  output: string,
  options: ConvertModelOptions,
): Promise<ConvertedModel> {
  const { to = "huggingface", maxShardBytes = defaultShardBytes, verify = false } = options;
  const asked = to === "halfbyte" ? "float32" : (options.dtype ?? (source.quantized ? "bfloat16" : undefined));
  const tensors = convertedTensors(source, asked, options.onProgress);
  const dtype = asked ?? mainDType(tensors.values());
  const shards = to === "halfbyte" ? [{ name: paramsName, tensors: [...tensors] }] : shardsOf(tensors, maxShardBytes);
  const exact = [...tensors].every(([name, { dtype }]) => holds(dtype, source.tensors.get(name)!.dtype));
  const files: string[] = [];
  let bytes = 0;
  let verification: Verification | undefined;
  await removeLeftovers(dirname(output), basename(output));
  const fill = async (folder: string): Promise<Readonly<Record<string, FileRecord>>> => {
    const records: Record<string, FileRecord> = {};
    for (const shard of shards) {
      records[shard.name] = await writeSafetensors(join(folder, shard.name), shard.tensors, {
        format: "pt",
        ...source.metadata,
      });
      bytes += records[shard.name]!.bytes;
    }
    if (shards.length > 1) records[indexName] = await writeJson(join(folder, indexName), indexOf(shards));
    records["config.json"] = await writeJson(join(folder, "config.json"), withDType(source.json, dtype));
    for (const file of source.files) {
      if ("json" in file) await writeJson(join(folder, file.name), file.json);
      else await copyFile(file.from, join(folder, file.name), constants.COPYFILE_FICLONE);
      files.push(file.name);
    }
    if (verify) {
      let done = 0;
      // Before and after.
      const of = 2 * source.config.config.numLayers;
      const onLayer = () => options.onProgress?.({ stage: "comparing logits", done: done++, of });
      verification = await verified(source, folder, { to, exact, onLayer });
    }
    return records;
  };
  if (to === "halfbyte") await writeWholeFolder(output, fill);
  else await writeFolder(output, async (folder) => void (await fill(folder)));
  return {
    from: source.kind,
    source: source.path,
    to,
    dtype,
    tensors: tensors.size,
    parameters: [...tensors.values()].reduce((sum, { shape }) => sum + sizeOf(shape), 0),
    bytes,
    shards: shards.length,
    files,
    dropped: source.dropped,
    notes: [...(source.notes ?? []), ...(asked === undefined ? narrowedNotes(source) : []), ...tokenizerNotes(files)],
    ...(verification && { verification }),
  };
}

/** The tensors as they are to be written: without rows of padding, in their dtypes. */
function convertedTensors(
  source: ModelSource,
  asked: StoredDType | undefined,
  onProgress: ConvertModelOptions["onProgress"],
): Map<string, StreamedArray> {
  const { config } = source.config;
  const entries = [...source.tensors].map(([name, tensor]) => {
    const values = modelValues(name, tensor.shape, config);
    return {
      name,
      tensor,
      values,
      spec: { shape: modelShape(name, tensor.shape, config), dtype: asked ?? storedDType(tensor) },
    };
  });
  const all = entries.reduce((sum, { spec }) => sum + byteLength(spec), 0);
  let done = 0;
  return new Map(
    entries.map(({ name, tensor, values, spec }) => {
      const parts = async function* () {
        for await (const part of castParts(name, tensor, { dtype: spec.dtype, values })) {
          yield part;
          done += part.data.byteLength;
          onProgress?.({ stage: "writing weights", done, of: all });
        }
      };
      return [name, { ...spec, parts }];
    }),
  );
}

/** float64 has no place among the dtypes that are written. */
const storedDType = ({ dtype }: Spec): StoredDType => (dtype === "float64" ? "float32" : (dtype as StoredDType));

/** Says that tensors are rounded though no dtype was asked for. */
function narrowedNotes({ tensors }: ModelSource): string[] {
  const count = [...tensors.values()].filter((tensor) => storedDType(tensor) !== tensor.dtype).length;
  const subject = count === 1 ? "1 tensor was" : `${count} tensors were`;
  return count === 0 ? [] : [`${subject} rounded from float64 to float32, the widest dtype that is written`];
}

/** The dtype of most bytes. */
function mainDType(tensors: Iterable<Spec>): StoredDType {
  const bytes = new Map<DType, number>();
  for (const spec of tensors) bytes.set(spec.dtype, (bytes.get(spec.dtype) ?? 0) + byteLength(spec));
  return [...bytes].sort(([, a], [, b]) => b - a)[0]![0] as StoredDType;
}

/** Whether every value of `from` is one of `to`. */
const holds = (to: DType, from: DType): boolean => to === from || (to === "float32" && from !== "float64");

/** In the spelling that the file has: transformers 4's torch_dtype or 5's dtype. */
function withDType(json: ModelSource["json"], dtype: StoredDType): ModelSource["json"] {
  const keys = ["dtype", "torch_dtype"].filter((key) => key in json);
  return { ...json, ...Object.fromEntries((keys.length > 0 ? keys : ["torch_dtype"]).map((key) => [key, dtype])) };
}

function indexOf(shards: readonly { name: string; tensors: readonly (readonly [string, Spec])[] }[]) {
  const entries = shards.flatMap(({ name, tensors }) => tensors.map(([tensor, spec]) => ({ name, tensor, spec })));
  return {
    metadata: { total_size: entries.reduce((sum, { spec }) => sum + byteLength(spec), 0) },
    weight_map: Object.fromEntries(entries.map(({ tensor, name }) => [tensor, name])),
  };
}

/** Reads back what was written. */
async function verified(
  source: ModelSource,
  folder: string,
  {
    to,
    ...options
  }: { readonly to: "huggingface" | "halfbyte"; readonly exact: boolean; readonly onLayer: () => void },
): Promise<Verification> {
  const written = to === "halfbyte" ? await openSafetensors(join(folder, paramsName)) : await openModelFiles(folder);
  try {
    const specs = "specs" in written ? written.specs : written.tensors;
    const tensors: SourceTensors = new Map(
      [...specs].map(([name, spec]): [string, SourceTensor] => [
        name,
        { ...spec, unit: 1, readPart: (begin, count) => written.readPart(name, begin, count) },
      ]),
    );
    return await verifyConversion(source, tensors, options);
  } finally {
    await written.close();
  }
}
