/** The narrow formats that quantizers round to, as rounding sees them. */
import type { DType } from "../core/index.ts";

export interface NarrowFormat {
  readonly name: "e2m1" | "e4m3";
  /** The dtype whose codes these values have. */
  readonly dtype: DType;
  /** Exponent of the smallest normal value; below it the grid has one step. */
  readonly minExponent: number;
  readonly mantissaBits: number;
  /** The largest finite value; rounding saturates here. */
  readonly max: number;
}

/** 0 .5 1 1.5 2 3 4 6; no infinity, no NaN. */
export const e2m1: NarrowFormat = {
  name: "e2m1",
  dtype: "float4_e2m1fn",
  minExponent: 0,
  mantissaBits: 1,
  max: 6,
};

/** Subnormals from 2^-9, normals from 2^-6, no infinity. */
export const e4m3: NarrowFormat = {
  name: "e4m3",
  dtype: "float8_e4m3fn",
  minExponent: -6,
  mantissaBits: 3,
  max: 448,
};
