/** Choosing between two tensors element by element. */
import { ShapeError } from "../../base/errors.ts";
import { sameShape, showSpec } from "../hostArray.ts";
import type { Op } from "../op.ts";
import { applyOne, type Operand, type Tensor } from "../tensor.ts";
import { allocate } from "../values.ts";
import { full } from "./constant.ts";
import { sameOperands } from "./elementwise.ts";
import { broadcastShapes, broadcastTo } from "./shape.ts";

const selectOp: Op<null> = {
  name: "select",
  shape: ([condition, a, b]) => {
    sameOperands("where", a!, b!);
    if (condition!.dtype !== "bool" || !sameShape(condition!.shape, a!.shape)) {
      throw new ShapeError(`where: the condition must be bool[${a!.shape}]; got ${showSpec(condition!)}`);
    }
    return [a!];
  },
  vjp: ({ inputs: [condition], cts: [ct], needs }) => [
    undefined,
    needs[1] ? where(condition!, ct!, 0) : undefined,
    needs[2] ? where(condition!, 0, ct!) : undefined,
  ],
  lower: (e, inputs, _, outputs) => e.op("stablehlo.select", inputs, outputs),
  interpret: ([condition, a, b]) => {
    const data = allocate(a!.dtype, a!.data.length);
    for (let i = 0; i < data.length; i++) data[i] = (condition!.data[i] ? a! : b!).data[i]!;
    return [{ shape: a!.shape, dtype: a!.dtype, data }];
  },
};

/** `condition ? a : b` for each element; all three broadcast, and one of a and b may be a number. */
export function where(condition: Tensor, a: Operand, b: Operand): Tensor {
  const like = typeof a === "number" ? b : a;
  if (typeof like === "number")
    throw new ShapeError("where: at least one of the two values must be a Tensor, so that the dtype is known");
  const tensor = (x: Operand) => (typeof x === "number" ? full([], x, like.dtype) : x);
  const [yes, no] = [tensor(a), tensor(b)];
  const shape = broadcastShapes({ shape: broadcastShapes(yes, no, "where"), dtype: like.dtype }, condition, "where");
  return applyOne(
    selectOp,
    [condition, yes, no].map((x) => broadcastTo(x, shape)),
    null,
  );
}

/** x limited to [low, high]. NaN stays NaN. */
export function clamp(x: Tensor, low: Operand, high: Operand): Tensor {
  return x.max(low).min(high);
}
