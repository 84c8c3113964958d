/**
 * Windows whose place is known only when running. A start that would let the window reach outside is moved to the nearest
 * that does not, as XLA does it.
 */
import { ShapeError } from "../../base/errors.ts";
import { type Shape, type Spec, showSpec } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Operand, type Tensor } from "../tensor.ts";
import { gatherOffsets, offsets, stridesOf, type Values } from "../values.ts";
import { full } from "./constant.ts";
import { asIndices } from "./indices.ts";
import { checkShape, i64s } from "./shape.ts";

function checkWindow(name: string, x: Spec, starts: readonly Spec[], sizes: Shape): void {
  checkShape(name, sizes);
  if (sizes.length !== x.shape.length || sizes.some((size, i) => size > x.shape[i]!)) {
    throw new ShapeError(`${name}: a window of [${sizes}] does not fit into ${showSpec(x)}`);
  }
  if (starts.length !== sizes.length) {
    throw new ShapeError(
      `${name}: ${showSpec(x)} needs ${sizes.length} starts, one for each dim; got ${starts.length}`,
    );
  }
  const wrong = starts.find(({ shape }) => shape.length > 0);
  if (wrong) throw new ShapeError(`${name}: starts are scalars; got ${showSpec(wrong)}`);
}

/** Flat offsets in x of the window's elements. */
function windowOffsets(x: Values, starts: readonly Values[], sizes: Shape): Int32Array {
  const strides = stridesOf(x.shape);
  const base = starts.reduce((sum, { data }, i) => {
    const start = Math.min(Math.max(data[0]!, 0), x.shape[i]! - sizes[i]!);
    return sum + start * strides[i]!;
  }, 0);
  return offsets(sizes, strides, base);
}

const dynamicSliceOp: Op<{ sizes: Shape }> = {
  name: "dynamic_slice",
  shape: ([x, ...starts], { sizes }) => {
    checkWindow("dynamicSlice", x!, starts, sizes);
    return [{ shape: sizes, dtype: x!.dtype }];
  },
  vjp: ({ inputs: [x, ...starts], cts: [ct] }) => [
    dynamicUpdateSlice(full(x!.shape, 0, x!.dtype), ct!, starts),
    ...starts.map(() => undefined),
  ],
  lower: (e, inputs, { sizes }, outputs) =>
    e.op("stablehlo.dynamic_slice", inputs, outputs, { slice_sizes: i64s(sizes) }),
  interpret: ([x, ...starts], { sizes }) => [gatherOffsets(x!, windowOffsets(x!, starts, sizes), sizes)],
  show: ({ sizes }) => `sizes=${sizes}`,
};

const dynamicUpdateSliceOp: Op<null> = {
  name: "dynamic_update_slice",
  shape: ([x, update, ...starts]) => {
    checkWindow("dynamicUpdateSlice", x!, starts, update!.shape);
    if (update!.dtype !== x!.dtype) {
      throw new ShapeError(`dynamicUpdateSlice: ${showSpec(update!)} is put into ${showSpec(x!)}; cast one of them`);
    }
    return [x!];
  },
  vjp: ({ inputs: [x, update, ...starts], cts: [ct], needs }) => [
    needs[0] ? dynamicUpdateSlice(ct!, full(update!.shape, 0, x!.dtype), starts) : undefined,
    needs[1] ? dynamicSlice(ct!, starts, update!.shape) : undefined,
    ...starts.map(() => undefined),
  ],
  lower: (e, inputs, _, outputs) => e.op("stablehlo.dynamic_update_slice", inputs, outputs),
  interpret: ([x, update, ...starts]) => {
    const data = x!.data.slice();
    windowOffsets(x!, starts, update!.shape).forEach((at, i) => {
      data[at] = update!.data[i]!;
    });
    return [{ ...x!, data }];
  },
};

const asStarts = (name: string, x: Tensor, starts: readonly Operand[]): Tensor[] =>
  starts.map((start, i) =>
    typeof start === "number" ? full([], start, "int32") : asIndices(name, start, x.shape[i] ?? 0),
  );

/**
 * The window of x of `sizes` that begins at `starts`: a number or an integer scalar for each dim. @throws ShapeError
 */
export function dynamicSlice(x: Tensor, starts: readonly Operand[], sizes: Shape): Tensor {
  return applyOne(dynamicSliceOp, [x, ...asStarts("dynamicSlice", x, starts)], { sizes });
}

/** x with `update` in place of the window that begins at `starts`. @throws ShapeError */
export function dynamicUpdateSlice(x: Tensor, update: Tensor, starts: readonly Operand[]): Tensor {
  return applyOne(dynamicUpdateSliceOp, [x, update, ...asStarts("dynamicUpdateSlice", x, starts)], null);
}
