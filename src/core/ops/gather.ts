/**
 * Reading and writing at places given by arrays of indices, as in NumPy's x[i, :, j]. Reads outside take the nearest entry
 * or 0, writes outside are dropped; negative indices are outside.
 */
import { ShapeError } from "../../base/errors.ts";
import { type DType, dtypeInfo, isFloat } from "../dtype.ts";
import { type Shape, type Spec, sameShape, showSpec, sizeOf } from "../hostArray.ts";
import type { Emitted, Emitter, Op } from "../op.ts";
import { applyOne, type Operand, type Tensor } from "../tensor.ts";
import { allocate, offsets, rounder, stridesOf, type Values } from "../values.ts";
import { full, iota } from "./constant.ts";
import { asIndices, checkIndices } from "./indices.ts";
import { where } from "./select.ts";
import { broadcastShapes, broadcastTo, checkDim, i64s } from "./shape.ts";

/** For each dim of an array integers, or null for all of it; dims left out at the end are taken whole. */
export type Indices = readonly (Operand | null)[];

interface GatherParams {
  /** The dims that have indices, in order. The indices are int32, all of one shape. */
  readonly dims: readonly number[];
}

/** Dims of x that are taken whole: before the first indexed one and after it. */
function wholeDims(x: Spec, { dims }: GatherParams): { before: number[]; after: number[] } {
  const whole = x.shape.map((_, dim) => dim).filter((dim) => !dims.includes(dim));
  return { before: whole.filter((dim) => dim < dims[0]!), after: whole.filter((dim) => dim > dims[0]!) };
}

/** Shape of what is read or written: the indices' dims stand in the place of the first indexed dim. */
function windowShape(x: Spec, params: GatherParams, indices: Shape): Shape {
  const { before, after } = wholeDims(x, params);
  const sizes = (list: readonly number[]) => list.map((dim) => x.shape[dim]!);
  return [...sizes(before), ...indices, ...sizes(after)];
}

/** StableHLO's dimension numbers: window dims of the result, and the index arrays as one whose last dim is a place. */
function emitPlaces(e: Emitter, x: Spec, params: GatherParams, indices: readonly Emitted[]) {
  const { shape } = indices[0]!;
  const column: Spec = { shape: [...shape, 1], dtype: "int32" };
  const columns = indices.map((index) =>
    indices.length === 1 ? index : e.op("stablehlo.reshape", [index], [column])[0]!,
  );
  const joined: Spec = { shape: [...shape, indices.length], dtype: "int32" };
  const { before, after } = wholeDims(x, params);
  return {
    places:
      columns.length === 1
        ? columns[0]!
        : e.op("stablehlo.concatenate", columns, [joined], { dimension: `${shape.length} : i64` })[0]!,
    window: [...before, ...after.map((_, i) => before.length + shape.length + i)].join(", "),
    indexed: params.dims.join(", "),
    indexDim: shape.length,
  };
}

/**
 * Flat offsets in x: of index number i, or undefined where it is outside and not clamped; and, from there, of each whole
 * entry. The result's elements lie as before × indices × after.
 */
function flatPlaces(x: Values, params: GatherParams, indices: readonly Values[], clamp: boolean) {
  const strides = stridesOf(x.shape);
  const { before, after } = wholeDims(x, params);
  const from = (dims: readonly number[]) =>
    offsets(
      dims.map((dim) => x.shape[dim]!),
      dims.map((dim) => strides[dim]!),
    );
  const at = (i: number): number | undefined => {
    let sum = 0;
    for (const [j, dim] of params.dims.entries()) {
      const [index, last] = [indices[j]!.data[i]!, x.shape[dim]! - 1];
      if (!clamp && (index < 0 || index > last)) return undefined;
      sum += Math.min(Math.max(index, 0), last) * strides[dim]!;
    }
    return sum;
  };
  return { at, before: from(before), after: from(after), count: indices[0]!.data.length };
}

/** Calls f with each element's flat offset in x and in the window. */
function eachElement(places: ReturnType<typeof flatPlaces>, f: (inArray: number, inWindow: number) => void): void {
  const { at, before, after, count } = places;
  for (let i = 0; i < count; i++) {
    const place = at(i);
    if (place === undefined) continue;
    for (let b = 0; b < before.length; b++) {
      const inWindow = (b * count + i) * after.length;
      for (let a = 0; a < after.length; a++) f(before[b]! + place + after[a]!, inWindow + a);
    }
  }
}

const gatherOp: Op<GatherParams> = {
  name: "gather",
  shape: ([x, ...indices], params) => {
    const empty = params.dims.find((dim) => x!.shape[dim] === 0);
    if (empty !== undefined)
      throw new ShapeError(
        `gather: dim ${empty} of ${showSpec(x!)} has no entries, of which { outside: "zero" } reads zeros`,
      );
    return [{ shape: windowShape(x!, params, indices[0]!.shape), dtype: x!.dtype }];
  },
  vjp: ({ inputs: [x, ...indices], params: { dims }, cts: [ct] }) => {
    const read = indices.map((index, i) => index.max(0).min(x!.shape[dims[i]!]! - 1));
    return [scatter("add", full(x!.shape, 0, x!.dtype), { dims }, read, ct!), ...indices.map(() => undefined)];
  },
  lower: (e, [x, ...indices], params, outputs) => {
    const { places, window, indexed, indexDim } = emitPlaces(e, x!, params, indices);
    return e.op("stablehlo.gather", [x!, places], outputs, {
      dimension_numbers: `#stablehlo.gather<offset_dims = [${window}], collapsed_slice_dims = [${indexed}], start_index_map = [${indexed}], index_vector_dim = ${indexDim}>`,
      slice_sizes: i64s(x!.shape.map((n, dim) => (params.dims.includes(dim) ? 1 : n))),
      indices_are_sorted: "false",
    });
  },
  interpret: ([x, ...indices], params, [out]) => {
    const data = allocate(out!.dtype, sizeOf(out!.shape));
    eachElement(flatPlaces(x!, params, indices, true), (inArray, inWindow) => {
      data[inWindow] = x!.data[inArray]!;
    });
    return [{ shape: out!.shape, dtype: out!.dtype, data }];
  },
  show: ({ dims }) => `dims=${dims}`,
};

/** What becomes of the old element and the update. */
type Combine = "add" | "set";

interface ScatterParams extends GatherParams {
  readonly combine: Combine;
}

/** 16-bit floats are summed in float32 and rounded once, like every sum. */
const isWidened = ({ dtype }: Spec, { combine }: ScatterParams): boolean =>
  combine === "add" && isFloat(dtype) && dtypeInfo(dtype).bits < 32;

/** Inputs: the array, the indices, the updates. */
const scatterOp: Op<ScatterParams> = {
  name: "scatter",
  shape: (inputs, params) => {
    const [target, updates] = [inputs[0]!, inputs.at(-1)!];
    const name = params.combine === "add" ? "scatterAdd" : "scatterUpdate";
    const { kind, bits } = dtypeInfo(target.dtype);
    if (params.combine === "add" && (kind === "bool" || bits < 8 || (kind !== "float" && bits === 64))) {
      throw new ShapeError(`${name}: cannot add in ${target.dtype}; cast it first`);
    }
    const wanted = windowShape(target, params, inputs[1]!.shape);
    if (updates.dtype !== target.dtype || !sameShape(updates.shape, wanted)) {
      throw new ShapeError(`${name}: updates must be ${target.dtype}[${wanted}]; got ${showSpec(updates)}`);
    }
    return [target];
  },
  vjp: ({ inputs, params, cts: [ct], needs }) => {
    const [target, indices, updates] = [inputs[0]!, inputs.slice(1, -1), inputs.at(-1)!];
    const ofTarget = () =>
      params.combine === "add" ? ct! : scatter("set", ct!, params, indices, full(updates.shape, 0, updates.dtype));
    const ofUpdates = () =>
      readWhere(ct!, params, indices, () => {
        const stays = insideOf(target, params, indices);
        return params.combine === "add" ? stays : stays.and(isLast(target, params, indices));
      });
    return [needs[0] ? ofTarget() : undefined, ...indices.map(() => undefined), needs.at(-1) ? ofUpdates() : undefined];
  },
  lower: (e, inputs, params, [out]) => {
    const [target, indices, updates] = [inputs[0]!, inputs.slice(1, -1), inputs.at(-1)!];
    const dtype: DType = isWidened(out!, params) ? "float32" : out!.dtype;
    const widen = (x: Emitted) =>
      x.dtype === dtype ? x : e.op("stablehlo.convert", [x], [{ shape: x.shape, dtype }])[0]!;
    const { places, window, indexed, indexDim } = emitPlaces(e, target, params, indices);
    const scalar: Spec = { shape: [], dtype };
    const [result] = e.op(
      "stablehlo.scatter",
      [widen(target), places, widen(updates)],
      [{ shape: out!.shape, dtype }],
      {
        scatter_dimension_numbers: `#stablehlo.scatter<update_window_dims = [${window}], inserted_window_dims = [${indexed}], scatter_dims_to_operand_dims = [${indexed}], index_vector_dim = ${indexDim}>`,
        indices_are_sorted: "false",
        unique_indices: "false",
      },
      [
        {
          inputs: [scalar, scalar],
          body: (a, b) => (params.combine === "add" ? e.op("stablehlo.add", [a, b], [scalar]) : [b]),
        },
      ],
    );
    return dtype === out!.dtype ? [result!] : e.op("stablehlo.convert", [result!], [out!]);
  },
  interpret: (inputs, params, [out]) => {
    const [target, indices, updates] = [inputs[0]!, inputs.slice(1, -1), inputs.at(-1)!];
    const result = isWidened(out!, params) ? new Float32Array(target.data) : target.data.slice();
    eachElement(flatPlaces(target, params, indices, false), (inArray, inWindow) => {
      const update = updates.data[inWindow]!;
      if (params.combine === "add") result[inArray]! += update;
      else result[inArray] = update;
    });
    const round = rounder(out!.dtype);
    const data = allocate(out!.dtype, result.length);
    for (let i = 0; i < data.length; i++) data[i] = round(result[i]!);
    return [{ shape: out!.shape, dtype: out!.dtype, data }];
  },
  show: ({ dims, combine }) => `${combine} dims=${dims}`,
};

function scatter(
  combine: Combine,
  target: Tensor,
  { dims }: GatherParams,
  indices: readonly Tensor[],
  updates: Tensor,
): Tensor {
  return applyOne(scatterOp, [target, ...indices, updates], { dims, combine });
}

/** Which places lie in x, in the indices' shape. */
function insideOf(x: Spec, { dims }: GatherParams, indices: readonly Tensor[]): Tensor {
  return indices.map((index, i) => index.ge(0).and(index.lt(x.shape[dims[i]!]!))).reduce((all, one) => all.and(one));
}

/** Which of several writes to one place is the last. */
function isLast(x: Spec, { dims }: GatherParams, indices: readonly Tensor[]): Tensor {
  const { shape } = indices[0]!;
  const numbers = iota([sizeOf(shape)], 0, "int32").reshape(shape);
  const table = full(
    dims.map((dim) => x.shape[dim]!),
    -1,
    "int32",
  );
  const every = { dims: dims.map((_, i) => i) };
  const last = scatter("set", table, every, indices, numbers);
  return applyOne(gatherOp, [last, ...indices], every).eq(numbers);
}

/** What is read of x, zero where the mask, of the indices' shape, is false; of a dim without entries all is zero. */
function readWhere(x: Tensor, { dims }: GatherParams, indices: readonly Tensor[], maskOf: () => Tensor): Tensor {
  const params = { dims };
  if (dims.some((dim) => x.shape[dim] === 0)) return full(windowShape(x, params, indices[0]!.shape), 0, x.dtype);
  const { before, after } = wholeDims(x, params);
  const mask = maskOf();
  const aligned = mask.reshape([...before.map(() => 1), ...mask.shape, ...after.map(() => 1)]);
  return where(aligned, applyOne(gatherOp, [x, ...indices], params), 0);
}

/** The indexed dims, and their indices as int32 of one shape. */
function resolveIndices(name: string, x: Tensor, indices: Tensor | Indices): { dims: number[]; arrays: Tensor[] } {
  const list: Indices = Array.isArray(indices) ? indices : [indices as Tensor];
  const dims = list.flatMap((index, dim) => (index === null ? [] : [dim]));
  if (dims.length === 0 || list.length > x.rank) {
    throw new ShapeError(
      `${name}: ${showSpec(x)} takes indices for 1 to ${x.rank} dims; got ${dims.length} of ${list.length}`,
    );
  }
  const given = dims.map((dim) => {
    const index = list[dim] as Operand;
    return typeof index === "number" ? full([], index, "int32") : asIndices(name, index, x.shape[dim]!);
  });
  const shape = given.reduce<Shape>((s, index) => broadcastShapes({ shape: s, dtype: "int32" }, index, name), []);
  return { dims, arrays: given.map((index) => broadcastTo(index, shape)) };
}

/** What indices beyond a dim read. */
export interface GatherOptions {
  /** What a place outside reads: the nearest entry (default), or zero. */
  readonly outside?: "clamp" | "zero";
}

/**
 * Entries of x at places: `gather(x, [i, null, j])` is NumPy's x[i, :, j]. The index arrays broadcast to one shape, which
 * stands in the result in the place of the first indexed dim. One Tensor is an index of dim 0. Rows of a batch, x [B,T,D]
 * at rows [B,K]: `gather(x, [iota([B, K], 0, "int32"), rows])`. @throws ShapeError
 */
export function gather(x: Tensor, indices: Tensor | Indices, { outside = "clamp" }: GatherOptions = {}): Tensor {
  const { dims, arrays } = resolveIndices("gather", x, indices);
  if (outside === "clamp") return applyOne(gatherOp, [x, ...arrays], { dims });
  return readWhere(x, { dims }, arrays, () => insideOf(x, { dims }, arrays));
}

/**
 * `target` with `updates`, of the shape that `gather` would read, added at the places of `indices`: rows (dim 0) for one
 * Tensor. Repeated places add up; sums of 16-bit floats are taken in float32 and rounded once. @throws ShapeError
 */
export function scatterAdd(target: Tensor, indices: Tensor | Indices, updates: Tensor): Tensor {
  const { dims, arrays } = resolveIndices("scatterAdd", target, indices);
  return scatter("add", target, { dims }, arrays, updates);
}

/**
 * `target` with `updates` in place of the entries that `gather` would read. Of several updates of one place the last
 * stays on a CPU; elsewhere one of them. @throws ShapeError
 */
export function scatterUpdate(target: Tensor, indices: Tensor | Indices, updates: Tensor): Tensor {
  const { dims, arrays } = resolveIndices("scatterUpdate", target, indices);
  return scatter("set", target, { dims }, arrays, updates);
}

/** Entries of `dim` at integer `indices`, whose dims take its place: an embedding. @throws ShapeError */
export function take(x: Tensor, indices: Tensor, dim = 0): Tensor {
  const at = checkDim("take", x, dim);
  return gather(x, [...Array.from({ length: at }, () => null), indices]);
}

/** 1 where the position along a new last dim equals the index, else 0. */
export function oneHot(indices: Tensor, depth: number, dtype: DType): Tensor {
  const shape = [...indices.shape, depth];
  return iota(shape, shape.length - 1, "int32")
    .eq(asIndices("oneHot", indices, depth).expandDims(-1))
    .astype(dtype);
}

/**
 * Elements of x along `dim` for each position of `indices`, whose other dims are x's; zero where the index is outside.
 * A single one is written as a masked sum, which fuses with what makes x, where a gather of elements would not.
 * @throws ShapeError
 */
export function takeAlong(x: Tensor, indices: Tensor, dim: number): Tensor {
  const at = checkDim("takeAlong", x, dim);
  checkIndices("takeAlong", indices);
  const wanted = x.shape.with(at, indices.shape[at] ?? 1);
  if (!sameShape(indices.shape, wanted)) {
    throw new ShapeError(`takeAlong: indices must have the shape [${wanted}]; got ${showSpec(indices)}`);
  }
  if (wanted[at] === 1 && isFloat(x.dtype) && dtypeInfo(x.dtype).bits >= 16) {
    const places = asIndices("takeAlong", indices, x.shape[at]!);
    return where(iota(x.shape, at, "int32").eq(places), x, 0).sum(at, { keepDims: true });
  }
  const places = wanted.map((_, d) => (d === at ? indices : iota(wanted, d, "int32")));
  return gather(x, places, { outside: "zero" });
}
