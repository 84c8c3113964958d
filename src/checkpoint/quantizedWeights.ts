/**
 * Quantized weights in a model's files, found by the names and dtypes of their tensors, in the layouts of compressed-tensors
 * (compressedTensors.ts) and of NVIDIA's ModelOpt, whose tensor scale is the reciprocal of the other's:
 *
 *     compressed-tensors   weight_packed U8, weight_scale F8_E4M3, weight_global_scale   code · (scale / global)
 *     ModelOpt             weight U8,        weight_scale F8_E4M3, weight_scale_2        code · (scale · scale_2)
 *     both                 weight_packed or weight, weight_scale U8 (E8M0)               code · scale
 *     both                 weight F8_E4M3, weight_scale float: [] or [1], [out] or [out, 1], blocks      code · scale
 */
import { UserError } from "../base/errors.ts";
import { decodeArray } from "../core/codecs.ts";
import { type DType, type HostArray, isFloat, type Spec, showSpec, sizeOf } from "../core/index.ts";
import type { DecodableWeight } from "../quant/storedWeights.ts";
import type { ModelFiles } from "./modelFiles.ts";

/** A weight that is stored in parts. */
export interface QuantizedWeight {
  /** Of the tensor with the codes. */
  readonly name: string;
  readonly module: string;
  /** Of the weight, [out, in]. */
  readonly shape: readonly [number, number];
  /** Rows that share scales, or 1 where all rows do: what `load` takes begins at multiples of it. */
  readonly rowsTogether: number;
  /** Some of its rows. @throws UserError where a scale or a code is no finite number */
  load(rows: Rows): Promise<DecodableWeight>;
}

/** From `begin` to before `end`. */
export interface Rows {
  readonly begin: number;
  readonly end: number;
}

/** Parts of a module that its weight is decoded from, or that only programs computing in the format need. */
const sideParts = /\.(weight_scale(_2)?|weight_global_scale|input_scale|input_global_scale|[kv]_scale)$/;

/** Parts of layouts that are not read here; without them a weight would be decoded wrongly. */
const unknownParts = /\.(weight_zero_point|weight_g_idx|weight_shape|weight_scale_inv|pre_quant_scale|qweight|qzeros)$/;

export const isSidePart = (name: string): boolean => sideParts.test(name);

/** All quantized weights of a model. @throws UserError where one is in a layout that is not read here */
export function findQuantizedWeights(model: ModelFiles): readonly QuantizedWeight[] {
  const { path, specs } = model;
  const unknown = [...specs.keys()].find((name) => unknownParts.test(name));
  if (unknown !== undefined)
    return refuse(path, `"${unknown}" belongs to a layout that is not read (those of NVFP4, MXFP4, MXFP8 and FP8 are)`);
  const transforms = (model.config.quantization_config as { transform_config?: object } | undefined)?.transform_config;
  if (transforms !== undefined && transforms !== null && Object.keys(transforms).length > 0)
    return refuse(path, "its weights are rotated (transform_config), which is not undone here");
  const found = [...specs].flatMap(([name, spec]) => {
    const [, module, part] = /^(.+)\.(weight|weight_packed)$/.exec(name) ?? [];
    if (module === undefined) return [];
    const scale = specs.get(`${module}.weight_scale`);
    if (scale !== undefined) return [layoutOf(model, { name, module, codes: spec, scale })];
    if (part === "weight_packed" || !isFloat(spec.dtype) || spec.dtype.startsWith("float8"))
      return refuse(path, `"${name}" is ${showSpec(spec)} without a weight_scale`);
    return [];
  });
  if (found.length === 0) refuse(path, `none of its ${specs.size} tensors is a quantized weight`);
  return found;
}

function refuse(path: string, what: string): never {
  throw new UserError("E_QUANTIZED", `${path}: ${what}`);
}

interface Place {
  readonly name: string;
  readonly module: string;
  readonly codes: Spec;
  readonly scale: Spec;
}

function layoutOf(model: ModelFiles, { name, module, codes, scale }: Place): QuantizedWeight {
  const element = codes.dtype === "uint8" ? "e2m1" : codes.dtype === "float8_e4m3fn" ? "e4m3" : undefined;
  const [out, columns] = codes.shape;
  if (element === undefined || out === undefined || columns === undefined || codes.shape.length !== 2)
    return refuse(model.path, `"${name}" is ${showSpec(codes)}; codes are a matrix of U8 (FP4) or F8_E4M3`);
  const shape = [out, element === "e2m1" ? 2 * columns : columns] as const;
  const factors = factorsOf(model, { module, scale, element });
  const block = blockOf(model, scale, shape, `${module}.weight_scale`);
  const rowsTogether = block.rows >= out ? 1 : block.rows;
  const across = Math.ceil(shape[1] / block.columns);
  return {
    name,
    module,
    shape,
    rowsTogether,
    load: async ({ begin, end }) => {
      const first = Math.floor(begin / block.rows) * across;
      const places = { codes: begin * columns, factors: first };
      const found = await model.readPart(name, places.codes, (end - begin) * columns);
      const weight: DecodableWeight = {
        element,
        shape: [end - begin, shape[1]],
        block,
        codes: found.data as Uint8Array,
        factors: await factors(first, Math.ceil(end / block.rows) * across - first),
      };
      checkFinite(model.path, { name, module, places }, weight);
      return weight;
    },
  };
}

/** How to get the float32 factors of blocks `begin` … `begin + count` of a weight. */
function factorsOf(
  model: ModelFiles,
  { module, scale, element }: { module: string; scale: Spec; element: "e2m1" | "e4m3" },
): (begin: number, count: number) => Promise<Float32Array> {
  const scales = `${module}.weight_scale`;
  const values = ({ dtype, data }: HostArray) => Float32Array.from(decodeArray(dtype, data));
  if (scale.dtype === "uint8" || scale.dtype === "float8_e8m0fnu")
    return async (...part) => values({ ...(await model.readPart(scales, ...part)), dtype: "float8_e8m0fnu" });
  if (element === "e4m3" && isFloat(scale.dtype))
    return async (...part) => values(await model.readPart(scales, ...part));
  const outer = ["weight_global_scale", "weight_scale_2"].find((part) => model.specs.has(`${module}.${part}`));
  if (scale.dtype !== "float8_e4m3fn" || outer === undefined) {
    return refuse(
      model.path,
      `"${scales}" is ${showSpec(scale)} and there is no weight_global_scale or weight_scale_2`,
    );
  }
  const spec = model.specs.get(`${module}.${outer}`)!;
  if (sizeOf(spec.shape) !== 1 || !isFloat(spec.dtype))
    return refuse(model.path, `"${module}.${outer}" is ${showSpec(spec)}; it must be one float`);
  return async (...part) => {
    const [factor] = values(await model.read(`${module}.${outer}`)) as unknown as [number];
    if (!(factor > 0 && factor < Number.POSITIVE_INFINITY))
      refuse(model.path, `"${module}.${outer}" is ${factor}; it must be above 0 and finite`);
    const found = values(await model.readPart(scales, ...part));
    return outer === "weight_scale_2" ? found.map((s) => s * factor) : found.map((s) => s / factor);
  };
}

interface PartOfWeight extends Pick<Place, "name" | "module"> {
  /** What lies before the part. */
  readonly places: { readonly codes: number; readonly factors: number };
}

/** @throws UserError naming the scale or the code that stands for no finite number */
function checkFinite(path: string, { name, module, places }: PartOfWeight, weight: DecodableWeight): void {
  const { factors, element, codes } = weight;
  const bad = factors.findIndex((factor) => !Number.isFinite(factor));
  if (bad >= 0) {
    const scale = `"${module}.weight_scale": scale ${places.factors + bad}`;
    refuse(path, `${scale} makes a factor of ${factors[bad]}; scales must be finite`);
  }
  const nan = element === "e4m3" ? codes.findIndex((code) => (code & 0x7f) === 0x7f) : -1;
  if (nan >= 0) refuse(path, `"${name}": code ${places.codes + nan} is NaN; a weight's values must be finite`);
}

/** Elements of a row that share a scale of a byte. */
const groupOf: Partial<Record<DType, number>> = { float8_e4m3fn: 16, uint8: 32, float8_e8m0fnu: 32 };

/** What shares a scale: by the dtype of the scales, where they are floats by the configuration and the shapes. */
function blockOf(
  { path, config }: ModelFiles,
  { shape: scales, dtype }: Spec,
  [out, inner]: readonly [number, number],
  name: string,
): DecodableWeight["block"] {
  const count = sizeOf(scales);
  // ModelOpt keeps the dims inside blocks, of size 1: [out blocks, 1, in blocks, 1].
  const [down = 0, across = 0] = scales.length === 4 ? [scales[0], scales[2]] : scales;
  const fits = ({ rows, columns }: DecodableWeight["block"]) =>
    down * across === count && Math.ceil(out / rows) === down && Math.ceil(inner / columns) === across;
  const group = groupOf[dtype];
  if (group !== undefined) {
    if (inner % group === 0 && fits({ rows: 1, columns: group })) return { rows: 1, columns: group };
  } else if (count === 1) return { rows: out, columns: inner };
  else if (scales.length === 1 && count === out) return { rows: 1, columns: inner };
  else {
    const block = [{ rows: 1, columns: inner }, ...blockSizes(config)].find(fits);
    if (block !== undefined) return block;
  }
  return refuse(
    path,
    `"${name}" is ${showSpec({ shape: scales, dtype })}, which does not fit a weight of [${out},${inner}]`,
  );
}

/** Of FP8 with float scales: as the configuration says, else 128 × 128. */
function blockSizes(config: ModelFiles["config"]): DecodableWeight["block"][] {
  const { config_groups: groups } = (config.quantization_config ?? {}) as { config_groups?: Record<string, unknown> };
  const isSize = (n: unknown): n is number => Number.isInteger(n) && (n as number) > 0;
  const said = Object.values(groups ?? {}).flatMap((group) => {
    const { block_structure: structure, group_size: size } =
      (group as { weights?: { block_structure?: unknown; group_size?: unknown } } | null)?.weights ?? {};
    if (Array.isArray(structure) && structure.length === 2 && structure.every(isSize))
      return [{ rows: structure[0] as number, columns: structure[1] as number }];
    return isSize(size) ? [{ rows: 1, columns: size }] : [];
  });
  return said.length > 0 ? said : [{ rows: 128, columns: 128 }];
}
