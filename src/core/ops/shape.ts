/** Moving elements without changing them: reshape, transpose, broadcast, slice, reverse, pad, concatenate. */
import { ShapeError } from "../../base/errors.ts";
import { type Shape, type Spec, sameShape, showSpec, sizeOf } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, gatherOffsets, offsets, representable, rounder, stridesOf } from "../values.ts";

/** MLIR's spelling of a list of integers. */
export const i64s = (values: readonly number[]): string => `array<i64${values.length ? `: ${values.join(", ")}` : ""}>`;

/** @throws ShapeError where a size is not a whole number ≥ 0 */
export function checkShape(name: string, shape: Shape): void {
  if (!shape.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new ShapeError(`${name}: [${shape}] is no shape; sizes must be whole numbers ≥ 0`);
  }
}

/** @throws ShapeError where what should be a Tensor has no shape */
export function checkSpec(name: string, x: Spec): void {
  if (!Array.isArray(x?.shape)) throw new ShapeError(`${name}: expected a Tensor, got ${typeof x}`);
}

/** `dim` counted from the left. @throws ShapeError where it is outside x */
export function checkDim(name: string, x: Spec, dim: number): number {
  checkSpec(name, x);
  if (!Number.isInteger(dim)) throw new ShapeError(`${name}: a dim is a whole number; got ${dim}`);
  const resolved = dim < 0 ? dim + x.shape.length : dim;
  if (resolved < 0 || resolved >= x.shape.length) {
    throw new ShapeError(`${name}: dim ${dim} is outside ${showSpec(x)}`);
  }
  return resolved;
}

/** A list of dims, all different, counted from the left. @throws ShapeError */
export function checkDims(name: string, x: Spec, dims: readonly number[]): number[] {
  const resolved = dims.map((dim) => checkDim(name, x, dim));
  const twice = resolved.find((dim, i) => resolved.indexOf(dim) !== i);
  if (twice !== undefined) throw new ShapeError(`${name}: dims [${dims}] name dim ${twice} of ${showSpec(x)} twice`);
  return resolved;
}

/** @throws ShapeError where what should be a list of Tensors is none, such as Tensors given one by one */
export function checkList(name: string, tensors: readonly Tensor[]): void {
  if (!Array.isArray(tensors)) throw new ShapeError(`${name}: takes Tensors in a list, ${name}([a, b], …)`);
}

export const reshapeOp: Op<{ shape: Shape }> = {
  name: "reshape",
  shape: ([x], { shape }) => {
    checkShape("reshape", shape);
    if (sizeOf(shape) !== sizeOf(x!.shape)) {
      throw new ShapeError(
        `reshape: ${showSpec(x!)} has ${sizeOf(x!.shape)} elements, [${shape}] has ${sizeOf(shape)}`,
      );
    }
    return [{ shape, dtype: x!.dtype }];
  },
  vjp: ({ inputs: [x], cts: [ct] }) => [reshape(ct!, x!.shape)],
  lower: (e, inputs, _, outputs) => e.op("stablehlo.reshape", inputs, outputs),
  interpret: ([x], { shape }) => [{ ...x!, shape }],
};

/** The same elements in row-major order under another shape; one dim may be -1. @throws ShapeError */
export function reshape(x: Tensor, shape: Shape): Tensor {
  const unknown = shape.indexOf(-1);
  const resolved = [...shape];
  if (unknown >= 0) {
    const known = sizeOf(shape.toSpliced(unknown, 1));
    resolved[unknown] = sizeOf(x.shape) / known;
    if (!(known > 0 && Number.isInteger(resolved[unknown]))) {
      throw new ShapeError(`reshape: ${showSpec(x)} has ${sizeOf(x.shape)} elements, which does not settle [${shape}]`);
    }
  }
  return sameShape(x.shape, resolved) ? x : applyOne(reshapeOp, [x], { shape: resolved });
}

export const expandDims = (x: Tensor, dim: number): Tensor => {
  const at = dim < 0 ? dim + x.rank + 1 : dim;
  if (!(Number.isInteger(at) && at >= 0 && at <= x.rank)) {
    throw new ShapeError(`expandDims: ${showSpec(x)} can get a new dim from ${-x.rank - 1} to ${x.rank}, not ${dim}`);
  }
  return reshape(x, x.shape.toSpliced(at, 0, 1));
};

export function squeeze(x: Tensor, dim: number): Tensor {
  const at = checkDim("squeeze", x, dim);
  if (x.shape[at] !== 1) throw new ShapeError(`squeeze: dim ${dim} of ${showSpec(x)} is not 1`);
  return reshape(
    x,
    x.shape.filter((_, i) => i !== at),
  );
}

const transposeOp: Op<{ permutation: readonly number[] }> = {
  name: "transpose",
  shape: ([x], { permutation }) => {
    if ([...permutation].sort((a, b) => a - b).some((p, i) => p !== i) || permutation.length !== x!.shape.length) {
      throw new ShapeError(`transpose: [${permutation}] is no permutation of the dims of ${showSpec(x!)}`);
    }
    return [{ shape: permutation.map((p) => x!.shape[p]!), dtype: x!.dtype }];
  },
  vjp: ({ params: { permutation }, cts: [ct] }) => [
    transpose(
      ct!,
      permutation.map((_, i) => permutation.indexOf(i)),
    ),
  ],
  lower: (e, inputs, { permutation }, outputs) =>
    e.op("stablehlo.transpose", inputs, outputs, { permutation: i64s(permutation) }),
  interpret: ([x], { permutation }, [out]) => {
    const strides = stridesOf(x!.shape);
    return [
      gatherOffsets(
        x!,
        offsets(
          out!.shape,
          permutation.map((p) => strides[p]!),
        ),
        out!.shape,
      ),
    ];
  },
  show: ({ permutation }) => `${permutation}`,
};

export function transpose(x: Tensor, permutation: readonly number[]): Tensor {
  const resolved = permutation.map((p) => (p < 0 ? p + x.rank : p));
  return resolved.length === x.rank && resolved.every((p, i) => p === i)
    ? x
    : applyOne(transposeOp, [x], { permutation: resolved });
}

/** Aligned from the right; a dim of 1 is repeated. */
const broadcastOp: Op<{ shape: Shape }> = {
  name: "broadcast",
  shape: ([x], { shape }) => {
    checkShape("broadcastTo", shape);
    const lead = shape.length - x!.shape.length;
    if (lead < 0 || x!.shape.some((dim, i) => dim !== 1 && dim !== shape[lead + i])) {
      throw new ShapeError(
        `broadcastTo: ${showSpec(x!)} does not broadcast to [${shape}]; each dim must be equal or 1, from the right`,
      );
    }
    return [{ shape, dtype: x!.dtype }];
  },
  vjp: ({ inputs: [x], params: { shape }, cts: [ct] }) => {
    const lead = shape.length - x!.rank;
    const repeated = shape.map((_, i) => i).filter((i) => i < lead || (x!.shape[i - lead] === 1 && shape[i] !== 1));
    return [ct!.sum(repeated).reshape(x!.shape)];
  },
  lower: (e, inputs, { shape }, outputs) => {
    const lead = shape.length - inputs[0]!.shape.length;
    return e.op("stablehlo.broadcast_in_dim", inputs, outputs, {
      broadcast_dimensions: i64s(inputs[0]!.shape.map((_, i) => lead + i)),
    });
  },
  interpret: ([x], { shape }) => {
    const lead = shape.length - x!.shape.length;
    const own = stridesOf(x!.shape);
    const strides = shape.map((_, i) => (i < lead || x!.shape[i - lead] === 1 ? 0 : own[i - lead]!));
    return [gatherOffsets(x!, offsets(shape, strides), shape)];
  },
};

export function broadcastTo(x: Tensor, shape: Shape): Tensor {
  return sameShape(x.shape, shape) ? x : applyOne(broadcastOp, [x], { shape });
}

/** The shape two shapes broadcast to. @throws ShapeError naming `operation` */
export function broadcastShapes(a: Spec, b: Spec, operation: string): Shape {
  checkSpec(operation, a);
  checkSpec(operation, b);
  const rank = Math.max(a.shape.length, b.shape.length);
  return Array.from({ length: rank }, (_, i) => {
    const [da, db] = [a.shape[i - rank + a.shape.length] ?? 1, b.shape[i - rank + b.shape.length] ?? 1];
    if (da !== db && da !== 1 && db !== 1) {
      throw new ShapeError(
        `${operation}: ${showSpec(a)} and ${showSpec(b)} do not broadcast: ${da} against ${db}; dims must be equal or 1, from the right`,
      );
    }
    return da === 1 ? db : da;
  });
}

export interface SliceParams {
  readonly starts: readonly number[];
  readonly limits: readonly number[];
  readonly strides: readonly number[];
}

const sliceOp: Op<SliceParams> = {
  name: "slice",
  shape: ([x], { starts, limits, strides }) => {
    const rank = x!.shape.length;
    const numbers = [...starts, ...limits, ...strides];
    if (!numbers.every(Number.isInteger)) {
      throw new ShapeError(`slice: [${starts}] to [${limits}] step [${strides}] must be whole numbers`);
    }
    const fits = starts.every((s, i) => s >= 0 && s <= limits[i]! && limits[i]! <= x!.shape[i]! && strides[i]! >= 1);
    if (starts.length !== rank || limits.length !== rank || strides.length !== rank || !fits) {
      throw new ShapeError(`slice: [${starts}] to [${limits}] step [${strides}] is outside ${showSpec(x!)}`);
    }
    return [{ shape: starts.map((s, i) => Math.ceil((limits[i]! - s) / strides[i]!)), dtype: x!.dtype }];
  },
  vjp: ({ inputs: [x], params: { starts, strides }, cts: [ct] }) => {
    const high = starts.map((s, i) => x!.shape[i]! - s - Math.max(0, (ct!.shape[i]! - 1) * strides[i]! + 1));
    return [pad(ct!, { low: starts, high, interior: strides.map((s) => s - 1) })];
  },
  lower: (e, inputs, { starts, limits, strides }, outputs) =>
    e.op("stablehlo.slice", inputs, outputs, {
      start_indices: i64s(starts),
      limit_indices: i64s(limits),
      strides: i64s(strides),
    }),
  interpret: ([x], { starts, strides }, [out]) => {
    const own = stridesOf(x!.shape);
    const base = starts.reduce((sum, s, i) => sum + s * own[i]!, 0);
    return [
      gatherOffsets(
        x!,
        offsets(
          out!.shape,
          own.map((s, i) => s * strides[i]!),
          base,
        ),
        out!.shape,
      ),
    ];
  },
  show: ({ starts, limits, strides }) =>
    starts.map((s, i) => `${s}:${limits[i]}${strides[i] === 1 ? "" : `:${strides[i]}`}`).join(","),
};

export function slice(x: Tensor, params: SliceParams): Tensor {
  const whole = params.starts.every((s, i) => s === 0 && params.limits[i] === x.shape[i] && params.strides[i] === 1);
  return whole && params.starts.length === x.rank ? x : applyOne(sliceOp, [x], params);
}

export function narrow(x: Tensor, dim: number, start: number, size: number): Tensor {
  const at = checkDim("narrow", x, dim);
  if (!Number.isInteger(start) || !Number.isInteger(size) || start < 0 || size < 0 || start + size > x.shape[at]!) {
    throw new ShapeError(
      `narrow: ${size} entries from ${start} are not in dim ${dim} of ${showSpec(x)}; both are whole numbers ≥ 0`,
    );
  }
  return slice(x, {
    starts: x.shape.map((_, i) => (i === at ? start : 0)),
    limits: x.shape.map((n, i) => (i === at ? start + size : n)),
    strides: x.shape.map(() => 1),
  });
}

/** One entry of a dim, which goes away; a negative index counts from the end. @throws ShapeError */
export function entryAt(x: Tensor, dim: number, index: number): Tensor {
  const at = checkDim("at", x, dim);
  const size = x.shape[at]!;
  if (!(Number.isInteger(index) && index >= -size && index < size)) {
    throw new ShapeError(
      `at: the index must be a whole number from ${-size} to ${size - 1}, dim ${dim} of ${showSpec(x)}; got ${index}`,
    );
  }
  return squeeze(narrow(x, at, index < 0 ? index + size : index, 1), at);
}

const reverseOp: Op<{ dims: readonly number[] }> = {
  name: "reverse",
  shape: ([x]) => [x!],
  vjp: ({ params: { dims }, cts: [ct] }) => [reverse(ct!, dims)],
  lower: (e, inputs, { dims }, outputs) => e.op("stablehlo.reverse", inputs, outputs, { dimensions: i64s(dims) }),
  interpret: ([x], { dims }) => {
    const own = stridesOf(x!.shape);
    const base = dims.reduce((sum, d) => sum + (x!.shape[d]! - 1) * own[d]!, 0);
    return [
      gatherOffsets(
        x!,
        offsets(
          x!.shape,
          own.map((s, i) => (dims.includes(i) ? -s : s)),
          base,
        ),
        x!.shape,
      ),
    ];
  },
  show: ({ dims }) => `dims=${dims}`,
};

export function reverse(x: Tensor, dims: readonly number[]): Tensor {
  return applyOne(reverseOp, [x], { dims: checkDims("reverse", x, dims) });
}

/** How many elements are added at the ends of each dim, and their value. */
export interface PadOptions {
  /** Entries put before, after and between the elements of each dim; negative low and high are not allowed. */
  readonly low: readonly number[];
  readonly high: readonly number[];
  readonly interior?: readonly number[];
  readonly value?: number;
}

type PadParams = Required<PadOptions>;

const isCount = (n: number): boolean => Number.isInteger(n) && n >= 0;

const padOp: Op<PadParams> = {
  name: "pad",
  shape: ([x], { low, high, interior, value }) => {
    const rank = x!.shape.length;
    if (!representable(value, x!.dtype)) throw new ShapeError(`pad: ${value} is no ${x!.dtype}`);
    const counts = [...low, ...high, ...interior];
    if (counts.length !== 3 * rank || low.length !== rank || high.length !== rank || !counts.every(isCount)) {
      throw new ShapeError(
        `pad: low [${low}], high [${high}] and interior [${interior}] must be whole numbers ≥ 0, one for each dim of ${showSpec(x!)}`,
      );
    }
    return [
      { shape: x!.shape.map((n, i) => n + low[i]! + high[i]! + Math.max(0, n - 1) * interior[i]!), dtype: x!.dtype },
    ];
  },
  vjp: ({ outputs: [y], params: { low, high, interior }, cts: [ct] }) => [
    slice(ct!, { starts: low, limits: y!.shape.map((n, i) => n - high[i]!), strides: interior.map((n) => n + 1) }),
  ],
  lower: (e, [x], { low, high, interior, value }, outputs) =>
    e.op("stablehlo.pad", [x!, e.splat(value, { shape: [], dtype: x!.dtype })], outputs, {
      edge_padding_low: i64s(low),
      edge_padding_high: i64s(high),
      interior_padding: i64s(interior),
    }),
  interpret: ([x], { low, interior, value }, [out]) => {
    const data = allocate(out!.dtype, sizeOf(out!.shape)).fill(rounder(out!.dtype)(value));
    const own = stridesOf(out!.shape);
    const base = low.reduce((sum, n, i) => sum + n * own[i]!, 0);
    const at = offsets(
      x!.shape,
      own.map((s, i) => s * (interior[i]! + 1)),
      base,
    );
    for (let i = 0; i < at.length; i++) data[at[i]!] = x!.data[i]!;
    return [{ shape: out!.shape, dtype: out!.dtype, data }];
  },
  show: ({ low, high, value }) => `low=${low} high=${high} value=${value}`,
};

/** Adds `low` and `high` elements of `value` at the ends of each dim. @throws ShapeError */
export function pad(x: Tensor, { low, high, interior, value = 0 }: PadOptions): Tensor {
  const params = { low, high, interior: interior ?? low.map(() => 0), value };
  padOp.shape([x], params);
  return [...low, ...high, ...params.interior].every((n) => n === 0) ? x : applyOne(padOp, [x], params);
}

const concatOp: Op<{ dim: number }> = {
  name: "concat",
  shape: (inputs, { dim }) => {
    const [first] = inputs;
    for (const x of inputs) {
      const sizes = x.shape.length > dim ? x.shape.with(dim, first!.shape[dim]!) : x.shape;
      const fits = x.dtype === first!.dtype && sameShape(sizes, first!.shape);
      if (!fits) throw new ShapeError(`concat along ${dim}: ${showSpec(first!)} and ${showSpec(x)} differ elsewhere`);
    }
    return [
      {
        shape: first!.shape.with(
          dim,
          inputs.reduce((sum, x) => sum + x.shape[dim]!, 0),
        ),
        dtype: first!.dtype,
      },
    ];
  },
  vjp: ({ inputs, params: { dim }, cts: [ct], needs }) => {
    let start = 0;
    return inputs.map((x, i) => {
      const at = start;
      start += x.shape[dim]!;
      return needs[i] ? narrow(ct!, dim, at, x.shape[dim]!) : undefined;
    });
  },
  lower: (e, inputs, { dim }, outputs) => e.op("stablehlo.concatenate", inputs, outputs, { dimension: `${dim} : i64` }),
  interpret: (inputs, { dim }, [out]) => {
    const data = allocate(out!.dtype, sizeOf(out!.shape));
    const own = stridesOf(out!.shape);
    let start = 0;
    for (const x of inputs) {
      const at = offsets(x.shape, own, start * own[dim]!);
      for (let i = 0; i < at.length; i++) data[at[i]!] = x.data[i]!;
      start += x.shape[dim]!;
    }
    return [{ shape: out!.shape, dtype: out!.dtype, data }];
  },
  show: ({ dim }) => `dim=${dim}`,
};

/** Joins tensors of one dtype along `dim`; their other dims are equal. @throws ShapeError */
export function concat(tensors: readonly Tensor[], dim: number): Tensor {
  checkList("concat", tensors);
  const [first] = tensors;
  if (first === undefined) throw new ShapeError("concat: needs at least one tensor");
  return tensors.length === 1 ? first : applyOne(concatOp, tensors, { dim: checkDim("concat", first, dim) });
}

/** Tensors of one shape along a new dim. */
export function stack(tensors: readonly Tensor[], dim: number): Tensor {
  checkList("stack", tensors);
  return concat(
    tensors.map((x) => expandDims(x, dim)),
    dim,
  );
}
