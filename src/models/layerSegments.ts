/**
 * Blocks one after another: unrolled, or as one scan for each run of layers that compute alike. A scan makes the program, and
 * the time to compile it, independent of depth; every bit of the result is the same.
 */
import { customVjp, scan } from "../autodiff/index.ts";
import { iota, namedScope, optimizationBarrier, stack, type Tensor, treeMap } from "../core/index.ts";
import type { Word } from "../quant/index.ts";

/** `count` consecutive layers from `first` on. */
export interface LayerSegment {
  readonly first: number;
  readonly count: number;
}

/** The longest runs of layers of which `kindOf` says the same. */
export function layerSegments(numLayers: number, kindOf: (layer: number) => string): LayerSegment[] {
  const segments: LayerSegment[] = [];
  for (let first = 0, layer = 1; layer <= numLayers; layer++) {
    if (layer < numLayers && kindOf(layer) === kindOf(first)) continue;
    segments.push({ first, count: layer - first });
    first = layer;
  }
  return segments;
}

/** Which layer a block is: `layer` for random keys, a uint32 scalar in a scan; `like` a number whose precision it has. */
export interface LayerPlace {
  readonly layer: Word;
  readonly like: number;
}

export type LayerFunction<W> = (weights: W, x: Tensor, place: LayerPlace) => Tensor;

/** x through the layers one by one; the result after each. */
export function unrolledLayers<W>(layers: readonly W[], x: Tensor, apply: LayerFunction<W>): Tensor[] {
  const states: Tensor[] = [];
  layers.forEach((weights, layer) => {
    states.push(applyAt(apply, weights, states.at(-1) ?? x, layer));
  });
  return states;
}

const applyAt = <W>(apply: LayerFunction<W>, weights: W, x: Tensor, layer: number): Tensor =>
  namedScope(`layers.${layer}`, () => apply(weights, x, { layer, like: layer }));

/**
 * x through the layers, each segment of two or more a scan over its weights, stacked along a new first dim; the result after
 * the last. The weights stay a tensor a layer outside, which costs the copy that stacking is.
 */
export function scannedLayers<W>(
  layers: readonly W[],
  x: Tensor,
  apply: LayerFunction<W>,
  segments: readonly LayerSegment[],
): Tensor {
  return segments.reduce((state, { first, count }) => {
    if (count === 1) return applyAt(apply, layers[first]!, state, first);
    const weights = stackTrees(layers.slice(first, first + count));
    const layer = iota([count], 0, "uint32").add(first);
    const body = (carry: Tensor, step: { weights: W; layer: Tensor }) => ({
      carry: apply(step.weights, carry, { layer: step.layer, like: first }),
      y: null,
    });
    const name = `layers.${first}-${first + count - 1}`;
    return namedScope(name, () => scan(body, state, { weights, layer }).carry);
  }, x);
}

function stackTrees<W>(trees: readonly W[]): W {
  const [first, ...rest] = trees;
  return treeMap<W>((...leaves: unknown[]) => stackWeights(leaves.slice(0, trees.length) as Tensor[]), first, ...rest);
}

/**
 * Stacked along a new first dim. The cotangent comes apart behind a barrier: without it every slice would be fused into what
 * reads it, and the optimizer's kernels, which are alike for equal shapes, would be compiled for each layer.
 */
const stackWeights = customVjp({
  fwd: (layers: Tensor[]) => ({ out: stack(layers, 0), residuals: layers.map(() => null) }),
  bwd: (layers, ct) => [[...optimizationBarrier(layers.map((_, i) => ct.at(0, i)))]],
});
