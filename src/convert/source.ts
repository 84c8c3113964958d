/** A model to convert, whatever it is stored as: Hugging Face's names over tensors that are read in parts. */
import type { FileToCopy } from "../checkpoint/modelFiles.ts";
import { type HostArray, type Shape, type Spec, sizeOf } from "../core/index.ts";
import type { HfLlamaConfig } from "../models/hfConfig.ts";
import { embeddingName, headName } from "../models/hfMapping.ts";
import type { LlamaConfig } from "../models/llama.ts";

/** A tensor that is read in parts, so that no model and no matrix has to fit in memory. */
export interface SourceTensor extends Spec {
  /** Parts begin at multiples of it, and have multiples of it or reach to the end. */
  readonly unit: number;
  /** Values `begin` … `begin + count` in row-major order, as [count], of the tensor's dtype. */
  readPart(begin: number, count: number): Promise<HostArray>;
}

export type SourceTensors = ReadonlyMap<string, SourceTensor>;

/** A small file that goes along: copied, or written as JSON. */
export type FileToWrite = FileToCopy | { readonly name: string; readonly json: unknown };

/** What a model was stored as. */
export type SourceKind = "huggingface" | "halfbyte" | "gguf";

/** An open model. `close()` it; it holds file descriptors. */
export interface ModelSource {
  readonly kind: SourceKind;
  readonly path: string;
  readonly config: HfLlamaConfig;
  /** config.json as it will be, but for the dtype. */
  readonly json: Readonly<Record<string, unknown>>;
  /** The model's tensors by their names in Hugging Face's checkpoints, in the order of the model. */
  readonly tensors: SourceTensors;
  /** The same as they are stored where that differs: queries and keys whose rows are in pairs that turn together. */
  readonly paired?: SourceTensors;
  /** What the files of weights say of themselves. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly files: readonly FileToWrite[];
  /** As `tokenizer_path` takes it; absent where there is none. */
  readonly tokenizerPath?: string;
  /** Entries that are not written, for they hold nothing of the model. */
  readonly dropped: readonly string[];
  /** What a person may not expect of how it is read. */
  readonly notes?: readonly string[];
  /** Whether values were rounded when they were stored: blocks of codes with scales. */
  readonly quantized: boolean;
  close(): Promise<void>;
}

/** Values that the model has, of a tensor that may hold more: rows of padding at the end of embedding and head. */
export const modelValues = (name: string, shape: Shape, { vocabSize, embDim }: LlamaConfig): number =>
  name === embeddingName || name === headName ? vocabSize * embDim : sizeOf(shape);

/** The shape that the model has of a tensor. */
export function modelShape(name: string, shape: Shape, config: LlamaConfig): Shape {
  const [, ...inner] = shape;
  return shape.length === 0 ? shape : [modelValues(name, shape, config) / sizeOf(inner), ...inner];
}

/** Values of a part where nothing asks for more: 4 MB of float32. */
const partValues = 1 << 20;

/** The parts of a tensor, from first to last. */
export async function* partsOf(tensor: SourceTensor, values: number): AsyncGenerator<HostArray & { begin: number }> {
  const step = Math.max(1, Math.floor(partValues / tensor.unit)) * tensor.unit;
  for (let begin = 0; begin < values; begin += step) {
    yield { ...(await tensor.readPart(begin, Math.min(step, values - begin))), begin };
  }
}
