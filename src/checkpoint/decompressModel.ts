/** Plain bfloat16 weights from a model of quantized ones, a tensor at a time; config.json then says bfloat16. */
import { UserError } from "../base/errors.ts";
import { decodeArray, encodeArray } from "../core/codecs.ts";
import { byteLength, type DType, type HostArray, hostArray, type Spec } from "../core/index.ts";
import { decodeWeight } from "../quant/storedWeights.ts";
import { type ModelFiles, openModelFiles } from "./modelFiles.ts";
import { findQuantizedWeights, isSidePart, type QuantizedWeight } from "./quantizedWeights.ts";
import type { LazyArray } from "./safetensors.ts";
import { refuseExisting, type WrittenModel, writeModelFiles } from "./writeModelFiles.ts";

export interface DecompressedModel extends WrittenModel {
  /** Names of the weights that were decoded. */
  readonly tensors: readonly string[];
  readonly bytesBefore: number;
}

/**
 * Writes `output`, a folder, from a file or folder in the layout of compressed-tensors or ModelOpt.
 * @param onProgress called with the weights done and their number @throws to stop
 */
export async function decompressModel(
  path: string,
  output: string,
  onProgress?: (done: number, of: number) => void,
): Promise<DecompressedModel> {
  refuseExisting(output);
  const model = await openModelFiles(path);
  try {
    const found = findQuantizedWeights(model);
    const byName = new Map(found.map((weight) => [weight.name, weight]));
    const former = formerDType(model.config);
    let done = 0;
    const decoded = ({ name, module, shape, load }: QuantizedWeight): [string, LazyArray] => {
      const spec: Spec = { shape, dtype: "bfloat16" };
      return [
        `${module}.weight`,
        {
          ...spec,
          load: async () => {
            const array = hostArray(
              shape,
              "bfloat16",
              finite(name, decodeWeight(await load({ begin: 0, end: shape[0] }))),
            );
            onProgress?.(++done, found.length);
            return array;
          },
        },
      ];
    };
    const written = await writeModelFiles(model, output, {
      entries: (file) =>
        [...file.tensors].flatMap(([name, spec]): [string, LazyArray][] => {
          const weight = byName.get(name);
          if (weight !== undefined) return [decoded(weight)];
          if (isSidePart(name)) return [];
          const read = () => file.read(name);
          return [spec.dtype === former ? kept(name, spec, read) : [name, { ...spec, load: read }]];
        }),
      config: plainConfig(model.config),
      without: ["hf_quant_config.json"],
    });
    const bytesBefore = [...model.specs.values()].reduce((sum, spec) => sum + byteLength(spec), 0);
    return { ...written, tensors: found.map(({ module }) => `${module}.weight`), bytesBefore };
  } finally {
    await model.close();
  }
}

/** In bfloat16. @throws UserError where code times scale is beyond it */
function finite(name: string, values: Float32Array): Uint16Array {
  const narrow = encodeArray("bfloat16", values) as Uint16Array;
  const index = narrow.findIndex((bits) => (bits & 0x7fff) >= 0x7f80);
  if (index < 0) return narrow;
  throw new UserError("E_NOT_FINITE_WEIGHT", `"${name}": value ${index} decodes to more than bfloat16 holds`);
}

const dtypeKeys = ["torch_dtype", "dtype"] as const;
const narrowed: readonly unknown[] = ["float16", "float32"];

/** The dtype that config.json says the model has, where decoding changes it. */
function formerDType(config: ModelFiles["config"]): DType | undefined {
  return dtypeKeys.map((key) => config[key]).find((value) => narrowed.includes(value)) as DType | undefined;
}

function plainConfig({ quantization_config: _, ...config }: ModelFiles["config"]): Readonly<Record<string, unknown>> {
  const isConfig = (key: string, value: unknown): value is ModelFiles["config"] =>
    key.endsWith("_config") && typeof value === "object" && value !== null && !Array.isArray(value);
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => {
      if (isConfig(key, value)) return [key, plainConfig(value)];
      return [key, (dtypeKeys as readonly string[]).includes(key) && narrowed.includes(value) ? "bfloat16" : value];
    }),
  );
}

/** A tensor that stays, in bfloat16 where it had the dtype that config.json said of the whole model. */
function kept(name: string, spec: Spec, read: () => Promise<HostArray>): [string, LazyArray] {
  const load = async () => {
    const { shape, dtype, data } = await read();
    const values = decodeArray(dtype, data);
    const narrow = encodeArray("bfloat16", values) as Uint16Array;
    const lost = narrow.findIndex((bits, i) => (bits & 0x7fff) === 0x7f80 && Number.isFinite(values[i]));
    if (lost >= 0) throw new UserError("E_NOT_FINITE_WEIGHT", `"${name}": value ${lost} is more than bfloat16 holds`);
    return hostArray(shape, "bfloat16", narrow);
  };
  return [name, { shape: spec.shape, dtype: "bfloat16", load }];
}
