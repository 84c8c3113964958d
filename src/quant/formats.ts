/** The narrow formats that quantizers round to, as rounding sees them. */
import type { DType } from "../core/index.ts";

/** Narrow formats by name. */
export type ElementName = "e2m1" | "int4" | "e4m3" | "e5m2";

/** A format of few bits: which values it has. */
export interface NarrowFormat {
  readonly name: ElementName;
  /** The dtype whose codes these values have; absent where no dtype has them. */
  readonly dtype?: DType;
  /** Exponent of the smallest normal value; below it the grid has one step. */
  readonly minExponent: number;
  readonly mantissaBits: number;
  /** The largest finite value; rounding saturates here. */
  readonly max: number;
}

/** 0 .5 1 1.5 2 3 4 6; no infinity, no NaN. */
export const e2m1 = {
  name: "e2m1",
  dtype: "float4_e2m1fn",
  minExponent: 0,
  mantissaBits: 1,
  max: 6,
} as const satisfies NarrowFormat;

/** The integers from −7 to 7: one step below 8. */
export const int4: NarrowFormat = { name: "int4", minExponent: 2, mantissaBits: 2, max: 7 };

/** Subnormals from 2^-9, normals from 2^-6, no infinity. */
export const e4m3 = {
  name: "e4m3",
  dtype: "float8_e4m3fn",
  minExponent: -6,
  mantissaBits: 3,
  max: 448,
} as const satisfies NarrowFormat;

/** Subnormals from 2^-16, normals from 2^-14. */
export const e5m2 = {
  name: "e5m2",
  dtype: "float8_e5m2",
  minExponent: -14,
  mantissaBits: 2,
  max: 57344,
} as const satisfies NarrowFormat;

export const formats: Readonly<Record<ElementName, NarrowFormat>> = { e2m1, int4, e4m3, e5m2 };
