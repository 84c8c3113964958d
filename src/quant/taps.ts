/** Taps: what a linear layer tells about its tensors beside its result, forward and backward. */
import { full, inPass, stack, type Tensor } from "../core/index.ts";
import { largestMagnitude } from "./blocks.ts";
import { type LinearTaps, quantizedAt, type Site } from "./operands.ts";
import { delayedOperand, gemmNames, type LinearTensor, tensorAt } from "./precision.ts";
import { plainStatistics, quantizationStatistics } from "./statistics.ts";

/** What the taps are to bring out of one tensor of the layer: a scalar, and a row of statistics. */
export function tapsOf(tensor: LinearTensor, x: Tensor, site: Site): LinearTaps {
  const { scales, probe } = site.taps ?? {};
  const delayed = delayedOperand(site.precision, tensor) !== undefined;
  return {
    ...(scales && { scales: delayed ? largestMagnitude(x) : full([], 0, "float32") }),
    ...(probe && { probe: inPass("probe", () => statisticsOf(tensor, x, site)) }),
  };
}

/** Statistics of the tensor's copy for the first GEMM that quantizes it. */
function statisticsOf(tensor: LinearTensor, x: Tensor, site: Site): Tensor {
  for (const gemm of gemmNames) {
    for (const operand of ["left", "right"] as const) {
      const spec = site.precision[gemm][operand];
      if (tensorAt[gemm][operand] !== tensor || spec.element === "plain") continue;
      const place = { site, gemm, operand };
      return quantizationStatistics(quantizedAt(x, spec, place), spec);
    }
  }
  return plainStatistics(x);
}

/** One array for what x, W and dy bring out. */
export function stackTaps(taps: readonly LinearTaps[]): LinearTaps {
  const rows = (name: keyof LinearTaps) => taps.flatMap(({ [name]: tap }) => tap ?? []);
  const [scales, probe] = [rows("scales"), rows("probe")];
  return {
    ...(scales.length > 0 && { scales: stack(scales, 0) }),
    ...(probe.length > 0 && { probe: stack(probe, 0) }),
  };
}
