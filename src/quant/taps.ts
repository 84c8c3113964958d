/** Taps: what a linear layer tells about its tensors beside its result, forward and backward. */
import { full, inPass, stack, type Tensor } from "../core/index.ts";
import { largestMagnitude } from "./blocks.ts";
import { type LinearTaps, quantizedAt, type Site } from "./operands.ts";
import { delayedOperand, firstQuantized, type LinearTensor } from "./precision.ts";
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
  const place = firstQuantized(site.precision, tensor);
  if (place === undefined) return plainStatistics(x);
  return quantizationStatistics(quantizedAt(x, place.spec, { site, ...place }), place.spec);
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
