/** Which matrix products hardware has for a format, and so why a GEMM is emulated. */
import type { ElementName } from "./formats.ts";
import type { GemmSpec } from "./precision.ts";

const products: Readonly<Record<ElementName, string>> = {
  e2m1: "XLA multiplies no FP4 on CPUs; NVIDIA's tensor cores do from Blackwell on",
  e4m3: "XLA multiplies no FP8 on CPUs; NVIDIA's tensor cores do from Ada and Hopper on, in blocks from Blackwell on",
  e5m2: "XLA multiplies no FP8 on CPUs; NVIDIA's tensor cores do from Ada and Hopper on, in blocks from Blackwell on",
  int4: "XLA multiplies no INT4 on CPUs, and NVIDIA's tensor cores no longer do from Hopper on: emulated there too",
};

/** Why a GEMM multiplies the decoded values in BF16, a sentence for each kind of element; of a plain one none. */
export function whyEmulated({ left, right }: GemmSpec): string[] {
  const kinds = [left, right].flatMap((spec) => (spec.element === "plain" ? [] : [products[spec.element]]));
  return [...new Set(kinds)];
}
