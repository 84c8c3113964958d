/** Arrays in host memory: what goes to a device and comes back, and what files hold. */
import { UserError } from "../base/errors.ts";
import { type DType, dtypeInfo, type TypedArray } from "./dtype.ts";

/** Sizes of dims, the last one contiguous. */
export type Shape = readonly number[];

/** Shape and dtype of a value that may not exist yet. */
export interface Spec {
  readonly shape: Shape;
  readonly dtype: DType;
}

/** Row-major values in host memory, stored as the dtype table says (floats of 16 bits and fewer as bit patterns). */
export interface HostArray extends Spec {
  readonly data: TypedArray;
}

/** A shape with a dtype: what tracing and compiling need of an argument. */
export function spec(shape: Shape, dtype: DType): Spec {
  return { shape, dtype };
}

/** Number of elements of a shape (1 for a scalar). */
export function sizeOf(shape: Shape): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

/** Bytes in host memory, where types of fewer than 8 bits take one byte a value. */
export function byteLength(value: Spec): number {
  return sizeOf(value.shape) * dtypeInfo(value.dtype).array.BYTES_PER_ELEMENT;
}

/** "bfloat16[8,512]": how shapes are written everywhere. */
export function showSpec({ shape, dtype }: Spec): string {
  return `${dtype}[${shape.join(",")}]`;
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dim, i) => dim === b[i]);
}

/**
 * A host array over `data` (not copied). @throws UserError where the shape is none, or the length or array
 * type does not fit shape and dtype.
 */
export function hostArray(shape: Shape, dtype: DType, data: TypedArray): HostArray {
  const { array } = dtypeInfo(dtype);
  if (!shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) {
    throw new UserError(
      "E_HOST_ARRAY",
      `${showSpec({ shape, dtype })} is no shape: its dimensions must be whole numbers of 0 or more`,
    );
  }
  if (!(data instanceof array) || data.length !== sizeOf(shape)) {
    throw new UserError(
      "E_HOST_ARRAY",
      `${showSpec({ shape, dtype })} needs a ${array.name} of ${sizeOf(shape)} values; got a ${data.constructor.name} of ${data.length}`,
    );
  }
  return { shape, dtype, data };
}
