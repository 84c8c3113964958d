/** Float32 arrays for the optimiser's tests. */
import { type HostArray, hostArray, sizeOf } from "../../src/core/index.ts";

export const floats = (shape: readonly number[], f: (i: number) => number): HostArray =>
  hostArray(
    shape,
    "float32",
    Float32Array.from({ length: sizeOf(shape) }, (_, i) => f(i)),
  );

export const valuesOf = (array: HostArray): number[] => Array.from(array.data as Float32Array);

export const scalarOf = (array: HostArray): number => Number(array.data[0]);

/** The bits, so that −0 differs from 0 and NaN equals itself. */
export const bitsOf = ({ data }: HostArray): Uint32Array => new Uint32Array(data.buffer, data.byteOffset, data.length);
