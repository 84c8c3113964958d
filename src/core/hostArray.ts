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
    const got =
      data == null ? data : `a ${(data as object).constructor.name} of ${(data as ArrayLike<unknown>).length}`;
    throw new UserError(
      "E_HOST_ARRAY",
      `${showSpec({ shape, dtype })} needs a ${array.name} of ${sizeOf(shape)} values; got ${got}`,
    );
  }
  return { shape, dtype, data };
}

/**
 * Checks an array that may be made by hand, and its values of fewer bits than their byte, whose other bits a device takes
 * for granted. @throws UserError
 */
export function checkHostArray({ shape, dtype, data }: HostArray): void {
  hostArray(shape, dtype, data);
  const { bits, kind } = dtypeInfo(dtype);
  if (bits >= 8 && kind !== "bool") return;
  const [low, high] = kind === "int" ? [-8, 7] : [0, kind === "bool" ? 1 : 15];
  for (const value of data) {
    if (value >= low && value <= high) continue;
    throw new UserError(
      "E_HOST_ARRAY",
      `${showSpec({ shape, dtype })} holds values from ${low} to ${high}; got ${value}`,
    );
  }
}

/** Whether a value has the parts of a host array, whatever is in them. */
export function isHostArray(value: unknown): value is HostArray {
  return typeof value === "object" && value !== null && "data" in value && "dtype" in value && "shape" in value;
}
