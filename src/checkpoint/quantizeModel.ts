/**
 * A model's linear weights quantized for inference, file by file and tensor by tensor: memory holds one weight at a time.
 * Each is read twice: first all of them for their largest magnitudes and to see that they are finite, then to be written.
 */
import { refuseMistakes, UserError } from "../base/errors.ts";
import { namePattern } from "../base/namePattern.ts";
import { nearest } from "../base/nearest.ts";
import { decodeArray, maxFinite, rounder } from "../core/codecs.ts";
import { byteLength, type HostArray, type Spec, showSpec, sizeOf } from "../core/index.ts";
import {
  type EncodedWeight,
  encodeWeight,
  floatScalesOf,
  type QuantizationError,
  quantizableDTypes,
} from "../quant/storedWeights.ts";
import {
  inputScaleFault,
  quantizationConfig,
  type WeightFormat,
  weightTensor,
  weightTensors,
} from "./compressedTensors.ts";
import type { ModelFiles } from "./modelFiles.ts";
import { notFiniteAt } from "./notFinite.ts";
import type { LazyArray } from "./safetensors.ts";
import { type WrittenModel, writeModelFiles } from "./writeModelFiles.ts";

/** What becomes of a model. */
export interface QuantizeModelOptions {
  readonly format: WeightFormat;
  /** Patterns of modules that stay as they are. */
  readonly ignore?: readonly string[];
  /** The largest magnitude of the inputs: of all modules, or by module. Needed where a format fixes inputs' scales. */
  readonly inputAmax?: number | Readonly<Record<string, number>>;
  /** Called often, with what is done of all weights, counted twice since they are read twice. @throws to stop */
  readonly onProgress?: (doneBytes: number, ofBytes: number) => void;
}

/** What rounding did to one tensor. */
export interface TensorError extends QuantizationError {
  readonly name: string;
  readonly shape: readonly number[];
}

export interface QuantizedModel extends WrittenModel {
  /** Of each quantized weight, in the order they were written. */
  readonly tensors: readonly TensorError[];
  /** Bytes of the tensors before. */
  readonly bytesBefore: number;
  /** Modules that were left as they are because of a pattern, or because they choose experts. */
  readonly ignored: readonly string[];
}

/** Modules that are no linear layers, by the last part of their name that is no number. */
const embeddings =
  /^(embed(ding)?s?|embed_\w+|\w+_embed(ding)?s?|\w+_embd|wte|wpe|word_emb|pos_emb|emb_layers|shared|relative_attention_bias)$/;
const norms = /norm|^ln_/i;
/** Layers that give the logits, which no format is used for. Meta's is a module `output` of its own. */
const heads =
  /(^|\.)(lm_heads?|embed_out|output_layer|predictions\.decoder)(\.\d+)?$|^(head|output|proj_out|model\.output)$/;
/** Linear layers that choose experts; a small error there changes which. */
const routers = /(^|\.)(gate|router|shared_expert_gate|router\.\w+)$/;

const lastPart = (module: string): string => /([^.]+)(\.\d+)*$/.exec(module)![1]!;
const isTable = (module: string): boolean => {
  const name = lastPart(module);
  return embeddings.test(name) || norms.test(name);
};
const moduleOf = (name: string): string => name.slice(0, -".weight".length);

/**
 * Writes `output`, a folder, from an open model. @throws UserError before anything is written: where a weight has a NaN or an
 * infinity, or a size that blocks do not divide
 */
export async function quantizeFiles(
  model: ModelFiles,
  output: string,
  { format, ignore = [], inputAmax, onProgress }: QuantizeModelOptions,
): Promise<QuantizedModel> {
  const { weights, ignored, heads } = chooseWeights(model, ignore);
  checkWeights(model, weights, format);
  const amaxOf = inputsOf(weights, format, inputAmax);
  const all = [...weights.values()].reduce((sum, spec) => sum + 2 * byteLength(spec), 0);
  let done = 0;
  const read = async (name: string): Promise<HostArray> => {
    const array = await model.read(name);
    done += byteLength(array);
    onProgress?.(done, all);
    return array;
  };

  const floats = new Map<string, Float32Array>();
  for (const name of weights.keys()) {
    const w = await read(name);
    floats.set(name, floatScalesOf(w, format.storage) ?? refuseNotFinite(name, w));
  }

  const tensors: TensorError[] = [];
  // Codes and scales of a weight are written one after the other.
  let last: { readonly name: string; readonly encoded: EncodedWeight } | undefined;
  const encode = async (name: string): Promise<EncodedWeight> => {
    if (last?.name === name) return last.encoded;
    last = undefined;
    const w = await read(name);
    const encoded = encodeWeight(w, format.storage, floats.get(name)!);
    refuseOverflow(name, w, encoded);
    tensors.push({ name, shape: w.shape, ...encoded.error });
    last = { name, encoded };
    return encoded;
  };
  const replacing = (name: string, spec: Spec): [string, LazyArray][] => {
    const parts = {
      floats: floats.get(name)!,
      inputAmax: amaxOf(moduleOf(name)),
      encoded: () => encode(name),
      dtype: spec.dtype,
    };
    return [...weightTensors(format, spec)].map(([part, stored]) => [
      `${moduleOf(name)}.${part}`,
      { ...stored, load: () => weightTensor(part, stored, parts) },
    ]);
  };
  const written = await writeModelFiles(model, output, {
    entries: (file) =>
      [...file.tensors].flatMap(([name, spec]): [string, LazyArray][] =>
        weights.has(name) ? replacing(name, spec) : [[name, { ...spec, load: () => file.read(name) }]],
      ),
    config: { ...model.config, quantization_config: quantizationConfig(format, [...heads, ...ignored]) },
  });
  const bytesBefore = [...model.specs.values()].reduce((sum, spec) => sum + byteLength(spec), 0);
  return { ...written, tensors, bytesBefore, ignored };
}

/** The weights of linear layers, in the order of the files. @throws UserError */
function chooseWeights(
  { path, specs, config }: ModelFiles,
  patterns: readonly string[],
): {
  readonly weights: ReadonlyMap<string, Spec>;
  readonly ignored: readonly string[];
  /** Linear layers of the model's end. */
  readonly heads: readonly string[];
} {
  const quantized = [...specs.keys()].find((name) => /\.(weight_packed|weight_scale(_\w+)?)$/.test(name));
  if (quantized !== undefined || config.quantization_config != null) {
    const why = quantized === undefined ? "config.json has a quantization_config" : `it has "${quantized}"`;
    throw new UserError("E_QUANTIZED", `${path} is quantized already (${why}): to=bf16 makes plain weights of it`);
  }
  const matrices = [...specs].filter(([name, { shape }]) => name.endsWith(".weight") && shape.length === 2);
  const headNames = matrices.map(([name]) => moduleOf(name)).filter((module) => heads.test(module));
  const linear = matrices.filter(([name]) => !headNames.includes(moduleOf(name)) && !isTable(moduleOf(name)));
  const modules = linear.map(([name]) => moduleOf(name));
  for (const pattern of patterns) {
    if (modules.some((module) => namePattern(pattern).test(module))) continue;
    const near = nearest(pattern, modules) ?? modules[0];
    throw new UserError(
      "E_IGNORE",
      `ignore=${pattern} is no linear module's name or pattern (* is any text)${near ? `; there is ${near}` : ""}`,
    );
  }
  const isIgnored = (module: string) =>
    routers.test(module) || patterns.some((pattern) => namePattern(pattern).test(module));
  const weights = new Map(linear.filter(([name]) => !isIgnored(moduleOf(name))));
  if (weights.size === 0) {
    throw new UserError("E_CHECKPOINT", `${path} has no weights to quantize among its ${specs.size} tensors`);
  }
  return { weights, ignored: modules.filter(isIgnored), heads: headNames };
}

/** @throws UserError naming every weight that the format can't hold */
function checkWeights({ specs }: ModelFiles, weights: ReadonlyMap<string, Spec>, format: WeightFormat): void {
  const { storage } = format;
  const mistakes = [...weights].flatMap(([name, spec]) => {
    if (sizeOf(spec.shape) === 0) {
      const fix = `leave it as it is with ignore=${moduleOf(name)}`;
      return new UserError("E_CHECKPOINT", `"${name}" is ${showSpec(spec)}, which has no values; ${fix}`);
    }
    if (!quantizableDTypes.includes(spec.dtype)) {
      const known = quantizableDTypes.join(", ");
      return new UserError("E_CHECKPOINT", `"${name}" is ${showSpec(spec)}; weights must be one of ${known}`);
    }
    const inner = spec.shape[1]!;
    const multiple = storage.scale === "float" ? 1 : storage.group;
    if (inner % multiple === 0) {
      const parts = [...weightTensors(format, spec).keys()].map((part) => `${moduleOf(name)}.${part}`);
      const taken = parts.find((part) => part !== name && specs.has(part));
      if (taken === undefined) return [];
      return new UserError("E_CHECKPOINT", `"${taken}" is there already, of another quantization: remove it first`);
    }
    return new UserError(
      "E_GROUP",
      `"${name}" is ${showSpec(spec)}: dim 1 (in) of ${inner} must be a multiple of ${multiple}; leave it as it is with ignore=${moduleOf(name)}`,
    );
  });
  refuseMistakes(mistakes, "weights can't be quantized");
}

/** The largest magnitude of a module's inputs, where the format needs one. @throws UserError where it isn't known */
function inputsOf(
  weights: ReadonlyMap<string, Spec>,
  format: WeightFormat,
  given: QuantizeModelOptions["inputAmax"],
): (module: string) => number | undefined {
  if (!format.fixedInputs) return () => undefined;
  const amaxOf = (module: string): number => (typeof given === "object" ? given[module]! : given!);
  const modules = [...weights.keys()].map(moduleOf);
  const missing = modules.filter(
    (module) => given === undefined || (typeof given === "object" && !Object.hasOwn(given, module)),
  );
  if (missing.length > 0) {
    throw new UserError(
      "E_INPUT_AMAX",
      `input_amax has nothing for ${missing.length} of ${modules.length} modules, the first is "${missing[0]}"`,
    );
  }
  const mistakes = [...weights].flatMap(([name, { dtype }]) => {
    const amax = amaxOf(moduleOf(name));
    const fault = inputScaleFault(format, amax, dtype);
    if (fault === undefined) return [];
    const stored = `its scale would be stored as ${fault}`;
    return new UserError("E_INPUT_AMAX", `input_amax=${amax} can't be that of "${moduleOf(name)}": ${stored}`);
  });
  refuseMistakes(mistakes.slice(0, typeof given === "object" ? 20 : 1), "magnitudes have no scale");
  return amaxOf;
}

/** @throws UserError where decoding would give infinities, in the weight's dtype or in BF16 */
function refuseOverflow(name: string, { dtype }: HostArray, { largestDecoded }: EncodedWeight): void {
  const beyond = (["float32", dtype, "bfloat16"] as const).find((to) => !Number.isFinite(rounder(to)(largestDecoded)));
  if (beyond === undefined) return;
  throw new UserError(
    "E_NOT_FINITE_WEIGHT",
    `"${name}": its largest values would decode to infinity in ${beyond}, whose largest number is ${maxFinite(beyond)}; leave it as it is with ignore=${moduleOf(name)}`,
  );
}

function refuseNotFinite(name: string, w: HostArray): never {
  const values = decodeArray(w.dtype, w.data) as Float32Array;
  const index = notFiniteAt(values);
  throw new UserError(
    "E_NOT_FINITE_WEIGHT",
    `"${name}": value ${index} is ${values[index]}; weights must be finite to be quantized`,
  );
}
