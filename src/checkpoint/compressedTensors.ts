/**
 * The layout of compressed-tensors: what a module's weight becomes, under which names, and what config.json says of it.
 *
 *     nvfp4-pack-quantized   weight_packed U8 [out, in/2]   weight_scale F8_E4M3 [out, in/16]   weight_global_scale F32 [1]
 *     mxfp4-pack-quantized   weight_packed U8 [out, in/2]   weight_scale U8 (E8M0) [out, in/32]
 *     mxfp8-quantized        weight F8_E4M3 [out, in]       weight_scale U8 (E8M0) [out, in/32]
 *     float-quantized        weight F8_E4M3 [out, in]       weight_scale, of the weight's dtype: [1], [out, 1] or blocks
 *
 * weight_global_scale is the factor used when encoding, so a value is code · (weight_scale / weight_global_scale). Formats
 * whose inputs have fixed scales store input_global_scale (F32) or input_scale likewise.
 */
import { encodeArray } from "../core/codecs.ts";
import { type DType, type HostArray, hostArray, type Spec } from "../core/index.ts";
import { e2m1, e4m3 } from "../quant/formats.ts";
import { type EncodedWeight, floatScale, globalScale, type WeightStorage } from "../quant/storedWeights.ts";

/** How weights, and inputs when they are used, are quantized: the presets of compressed-tensors, in lower case. */
export interface WeightFormat {
  readonly meaning: string;
  readonly storage: WeightStorage;
  /** compressed-tensors' name of the layout. */
  readonly layout: string;
  /** What config.json says of the weights and of the inputs. */
  readonly weights: Readonly<Record<string, unknown>>;
  readonly inputs: Readonly<Record<string, unknown>> | null;
  /** Whether the inputs' scales are fixed: then their largest magnitudes have to be known. */
  readonly fixedInputs: boolean;
}

const everywhere = Number.POSITIVE_INFINITY;
const fp8 = { num_bits: 8, symmetric: true, type: "float" };
const fp4 = { ...fp8, num_bits: 4 };
const fixed = { dynamic: false, group_size: null };
const nvfp4Group = { ...fp4, group_size: 16, scale_dtype: "torch.float8_e4m3fn", strategy: "tensor_group" };
const mxGroup = { group_size: 32, scale_dtype: "torch.uint8", strategy: "group" };
const calibrated = { observer: "static_minmax" };

const nvfp4 = {
  storage: { element: "e2m1", scale: "e4m3", group: 16 },
  layout: "nvfp4-pack-quantized",
  weights: { ...nvfp4Group, dynamic: false },
} as const;

/** The formats by the names that `halfbyte quantize` takes. */
export const weightFormats = {
  nvfp4a16: {
    ...nvfp4,
    meaning: "NVFP4 weights, inputs as they are",
    inputs: null,
    fixedInputs: false,
  },
  nvfp4: {
    ...nvfp4,
    meaning: "NVFP4 weights and inputs",
    inputs: { ...nvfp4Group, ...calibrated, dynamic: "local" },
    fixedInputs: true,
  },
  mxfp4: {
    meaning: "MXFP4 weights and inputs",
    storage: { element: "e2m1", scale: "e8m0", group: 32 },
    layout: "mxfp4-pack-quantized",
    weights: { ...fp4, ...mxGroup, dynamic: false },
    inputs: { ...fp4, ...mxGroup, dynamic: true },
    fixedInputs: false,
  },
  mxfp8: {
    meaning: "MXFP8 weights and inputs",
    storage: { element: "e4m3", scale: "e8m0", group: 32 },
    layout: "mxfp8-quantized",
    weights: { ...fp8, ...mxGroup, dynamic: false },
    inputs: { ...fp8, ...mxGroup, dynamic: true },
    fixedInputs: false,
  },
  fp8: {
    meaning: "FP8 with one scale a weight and one for its inputs",
    storage: { element: "e4m3", scale: "float", rows: everywhere, columns: everywhere },
    layout: "float-quantized",
    weights: { ...fp8, ...fixed, strategy: "tensor" },
    inputs: { ...fp8, ...fixed, ...calibrated, strategy: "tensor" },
    fixedInputs: true,
  },
  fp8_dynamic: {
    meaning: "FP8 with a scale for each output channel; a token's scale is found when it is computed",
    storage: { element: "e4m3", scale: "float", rows: 1, columns: everywhere },
    layout: "float-quantized",
    weights: { ...fp8, ...fixed, strategy: "channel" },
    inputs: { ...fp8, ...fixed, dynamic: true, strategy: "token" },
    fixedInputs: false,
  },
  fp8_block: {
    meaning: "FP8 with a scale for each 128×128 block; inputs 1×128, found when they are computed",
    storage: { element: "e4m3", scale: "float", rows: 128, columns: 128 },
    layout: "float-quantized",
    weights: { ...fp8, ...fixed, block_structure: [128, 128], strategy: "block" },
    inputs: { ...fp8, dynamic: true, group_size: 128, strategy: "group" },
    fixedInputs: false,
  },
} as const satisfies Readonly<Record<string, WeightFormat>>;

/** A name of `weightFormats`. */
export type WeightFormatName = keyof typeof weightFormats;

/** The version of compressed-tensors whose configuration this is. */
const version = "0.20.1";

/** config.json's `quantization_config`. @param ignore modules that stay as they are, besides lm_head */
export function quantizationConfig({ layout, weights, inputs }: WeightFormat, ignore: readonly string[]): object {
  return {
    config_groups: {
      group_0: {
        format: layout,
        input_activations: inputs,
        output_activations: null,
        targets: ["Linear"],
        weights,
      },
    },
    format: layout,
    global_compression_ratio: null,
    ignore: ["lm_head", ...ignore.filter((name) => name !== "lm_head")],
    kv_cache_scheme: null,
    moe_sparsity_config: null,
    quant_method: "compressed-tensors",
    quantization_status: "compressed",
    sparsity_config: {},
    transform_config: {},
    version,
  };
}

const shapeOfScales = (storage: WeightStorage, [out, inner]: readonly [number, number]): readonly number[] => {
  if (storage.scale !== "float") return [out, inner / storage.group];
  const { rows, columns } = storage;
  if (rows === everywhere) return [1];
  return [Math.ceil(out / rows), columns === everywhere ? 1 : Math.ceil(inner / columns)];
};

/** The tensors that take the place of a weight, by what follows its module's name. */
export function weightTensors({ storage, fixedInputs }: WeightFormat, weight: Spec): ReadonlyMap<string, Spec> {
  const [out, inner] = weight.shape as [number, number];
  const packed = storage.element === "e2m1";
  const scales = shapeOfScales(storage, [out, inner]);
  const scaleDType = storage.scale === "e4m3" ? "float8_e4m3fn" : storage.scale === "e8m0" ? "uint8" : weight.dtype;
  const codes: Spec = packed
    ? { dtype: "uint8", shape: [out, inner / 2] }
    : { dtype: "float8_e4m3fn", shape: [out, inner] };
  const global: Spec = { dtype: "float32", shape: [1] };
  const ofInputs: [string, Spec][] =
    storage.scale === "e4m3" ? [["input_global_scale", global]] : [["input_scale", { dtype: scaleDType, shape: [1] }]];
  return new Map<string, Spec>([
    [packed ? "weight_packed" : "weight", codes],
    ["weight_scale", { dtype: scaleDType, shape: scales }],
    ...(storage.scale === "e4m3" ? [["weight_global_scale", global] as const] : []),
    ...(fixedInputs ? ofInputs : []),
  ]);
}

/** What a stored tensor is made from. */
export interface WeightParts {
  /** Of the first pass over the weight. */
  readonly floats: Float32Array;
  readonly inputAmax: number | undefined;
  /** The second pass, done when codes or scales of blocks are asked for. */
  readonly encoded: () => Promise<EncodedWeight>;
  /** Of the weight. */
  readonly dtype: DType;
}

/** The fixed scale of inputs whose largest magnitude is `amax`. @param dtype of the weight */
function inputScale(amax: number, name: "input_global_scale" | "input_scale", dtype: DType): number {
  return name === "input_global_scale" ? globalScale(amax) : floatScale(amax, dtype);
}

/** The scale that would be stored instead of that of `amax`, or undefined where it can be stored. @param dtype of the weight */
export function inputScaleFault({ storage }: WeightFormat, amax: number, dtype: DType): number | undefined {
  const ofNvfp4 = storage.scale === "e4m3";
  const scale = inputScale(amax, ofNvfp4 ? "input_global_scale" : "input_scale", dtype);
  // What the scale says of the magnitude; rounding to bfloat16 is less than 1 % off.
  const meant = ofNvfp4 ? (e2m1.max * e4m3.max) / scale : scale * e4m3.max;
  return Math.abs(meant / amax - 1) < 0.01 ? undefined : scale;
}

/** One of the tensors of `weightTensors`. */
export async function weightTensor(name: string, { shape, dtype }: Spec, parts: WeightParts): Promise<HostArray> {
  const floats = (values: Float32Array) => hostArray(shape, dtype, encodeArray(dtype, values));
  const bytes = (data: Uint8Array) => hostArray(shape, dtype, data);
  switch (name) {
    case "weight_global_scale":
      return floats(parts.floats);
    case "input_global_scale":
    case "input_scale":
      return floats(Float32Array.of(inputScale(parts.inputAmax!, name, parts.dtype)));
    case "weight_scale": {
      // Block scales are bytes; those of the first pass are floats.
      const { scales } = dtype === parts.dtype ? { scales: undefined } : await parts.encoded();
      return scales === undefined ? floats(parts.floats) : bytes(scales);
    }
    default:
      return bytes((await parts.encoded()).codes);
  }
}
