/** Why a step was skipped: which tensors were not finite. */
import { notFiniteAt } from "../checkpoint/index.ts";
import { treePaths } from "../core/index.ts";
import { hfName } from "../models/hfMapping.ts";
import type { LlamaTree } from "../models/llama.ts";
import type { DeviceArray } from "../pjrt/index.ts";

export interface SkippedStep {
  readonly tensors: readonly string[];
  /** One sentence. */
  readonly message: string;
}

/** A step whose gradients were too large for float16 at its loss scale: no fault of the run. */
export function explainOverflow(
  step: number,
  { lossScale, nextScale }: { readonly lossScale: number; readonly nextScale: number },
  norms: ArrayLike<number>,
  params: LlamaTree<unknown>,
): SkippedStep {
  const tensors = treePaths(params).flatMap(({ path }, i) => (Number.isFinite(norms[i]) ? [] : [hfName(path) ?? path]));
  const which = tensors.length === 1 ? `the gradient of ${tensors[0]}` : `the gradients of ${tensors.length} tensors`;
  return {
    tensors,
    message: `step ${step} is skipped: ${which} overflowed float16 at loss_scale ${lossScale}, which falls to ${nextScale}`,
  };
}

/** Above this a weight is as good as infinite: its square overflows float32. */
const hugeWeight = 2 ** 64;

/**
 * @param norms gradient norm of each parameter, in the order of the tree
 * @param params looked through for the cause, copied to the host one by one
 */
export async function explainSkip(
  step: number,
  loss: number,
  norms: ArrayLike<number>,
  params: LlamaTree<DeviceArray>,
): Promise<SkippedStep> {
  const named = treePaths(params).map(({ path, leaf }) => ({ name: hfName(path) ?? path, array: leaf as DeviceArray }));
  const weights: { name: string; text: string }[] = [];
  for (const { name, array } of named) {
    const values = (await array.toHost()).data as Float32Array;
    const bad = notFiniteAt(values);
    const index = bad >= 0 ? bad : values.findIndex((value) => Math.abs(value) > hugeWeight);
    if (index >= 0) weights.push({ name, text: `weight ${index} of ${name} is ${values[index]}` });
  }
  const gradients = named.filter((_, i) => !Number.isFinite(norms[i])).map(({ name }) => name);
  const what = Number.isFinite(loss) ? "" : `the loss is ${loss}, `;
  // Gradients flow from the end of the model to its beginning: the last one named is the nearest to the cause.
  const nearest = gradients.at(-1);
  const where =
    gradients.length === named.length
      ? "every gradient is not finite"
      : nearest === undefined
        ? "the gradient is too large for float32"
        : `the gradient of ${nearest}${gradients.length > 1 ? ` and of ${gradients.length - 1} before it` : ""} is not finite`;
  const cause =
    weights.length > 0 ? ` (${weights[0]!.text}${weights.length > 1 ? `, and ${weights.length - 1} more` : ""})` : "";
  return {
    tensors: weights.length > 0 ? weights.map(({ name }) => name) : gradients,
    message: `step ${step} is skipped: ${what}${where}${cause}`,
  };
}
