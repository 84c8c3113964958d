/**
 * Delayed scaling: a tensor's scale comes from its largest magnitudes in the steps before, so that it is known before the
 * tensor is. A step quantizes with the scales in force; then, of each tensor:
 *
 *     slot 0 of the history = the step's largest magnitude
 *     a = the history's maximum (`max`, where NaN wins), or slot 0 (`most_recent`)
 *     scale = min((max / a) / 2^margin, FLT_MAX), kept as it is where a is 0, infinite or NaN
 *     the history moves one slot down, slot 0 to the end; slot 0 is cleared
 *
 * Scales begin at 1, histories at 0. Order and layout are Transformer Engine's.
 */
import { invariant, UserError } from "../base/errors.ts";
import {
  concat,
  constant,
  full,
  type HostArray,
  hostArray,
  type Spec,
  spec,
  type Tensor,
  where,
  zeros,
} from "../core/index.ts";
import { formats } from "./formats.ts";
import { type DelayedScale, delayedOperand, type LinearPrecision, linearTensors } from "./precision.ts";

/** What delayed scaling remembers from step to step. Dims: layer, module, then x, W and dy. */
export interface DelayedScalingState<Leaf = Tensor> {
  /** float32 [layers, modules, 3]: the scales in force; 1 where no scale is delayed. */
  readonly scales: Leaf;
  /** float32 [layers, modules, 3, historyLength]: largest magnitudes; the newest lies last, slot 0 is 0. */
  readonly history: Leaf;
}

/** How one tensor's scale is delayed. */
export interface ScaleRule extends DelayedScale {
  /** The largest value of its elements. */
  readonly max: number;
}

/** Which scales of a model are delayed, and how. */
export interface DelayedScaling {
  /** [layers, modules, 3] */
  readonly shape: readonly [number, number, number];
  /** The same for all, so that histories are one array. */
  readonly historyLength: number;
  /** Row-major in `shape`; undefined where no scale is delayed. */
  readonly rules: readonly (ScaleRule | undefined)[];
}

/**
 * The delayed scales of linear layers [layer][module]; undefined where there are none.
 * @throws UserError where histories have different lengths
 */
export function delayedScalingOf(layers: readonly (readonly LinearPrecision[])[]): DelayedScaling | undefined {
  const rules = layers.flat().flatMap((precision) =>
    linearTensors.map((tensor): ScaleRule | undefined => {
      const operand = delayedOperand(precision, tensor);
      return operand && { ...operand.scale, max: formats[operand.element].max };
    }),
  );
  const lengths = new Set(rules.flatMap((rule) => rule?.historyLength ?? []));
  const [historyLength, ...others] = lengths;
  if (historyLength === undefined) return undefined;
  if (others.length > 0) {
    const list = [...lengths].join(", ");
    throw new UserError("E_PRECISION", `delayed scales of one model need one historyLength; got ${list}`);
  }
  return { shape: [layers.length, layers[0]!.length, linearTensors.length], historyLength, rules };
}

/** Shapes of the state. */
export function delayedScalingSpecs({ shape, historyLength }: DelayedScaling): DelayedScalingState<Spec> {
  return { scales: spec(shape, "float32"), history: spec([...shape, historyLength], "float32") };
}

/** The state before the first step. */
export function initialDelayedScaling(scaling: DelayedScaling): DelayedScalingState<HostArray> {
  const { scales, history } = delayedScalingSpecs(scaling);
  const filled = ({ shape }: Spec, value: number) =>
    hostArray(shape, "float32", new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(value));
  return { scales: filled(scales, 1), history: filled(history, 0) };
}

/** The scales in force as taps, one for each layer, for whatever computes the model. */
export function tapsOfScales(scales: Tensor): { readonly scales: Tensor }[] {
  return Array.from({ length: scales.shape[0]! }, (_, layer) => ({ scales: scales.at(0, layer) }));
}

/**
 * The larger of magnitudes, element by element; NaN is the largest. Compared as integers, which order as magnitudes do: CPU
 * code may drop NaN from a maximum of floats.
 */
export const largerMagnitudes = (a: Tensor, b: Tensor): Tensor =>
  a.bitcast("uint32").max(b.bitcast("uint32")).bitcast("float32");

/** What a step saw. */
export interface SeenMagnitudes {
  /** float32 [layers, modules, 3]: maxima over all of the step's micro-batches. */
  readonly amax: Tensor;
  /** Bool scalar: the step counts; default true. */
  readonly finite?: Tensor;
}

/** The state after a step. What is not delayed stays as it is, and all of it after a step that does not count. */
export function nextDelayedScaling(
  { scales, history }: DelayedScalingState,
  { amax, finite }: SeenMagnitudes,
  { shape, historyLength: L, rules }: DelayedScaling,
): DelayedScalingState {
  invariant(history.shape.at(-1) === L && amax.shape.join() === shape.join(), "delayed scaling's state fits its rules");
  const newest = amax.reshape([...shape, 1]);
  const slots = (from: number, to: number) => history.slice([0, 0, 0, from], [...shape, to]);
  const before = () => slots(1, L).bitcast("uint32").maxOver(3).bitcast("float32");
  const largest = L === 1 ? amax : largerMagnitudes(amax, before());
  const ofEach = (value: (rule: ScaleRule) => number) => tableOf(shape, rules, value);

  const counts = where(ofEach(({ algorithm }) => Number(algorithm === "max")).gt(0), largest, amax);
  // As bits: CPU code takes float32 denormals for 0.
  const bits = counts.bitcast("uint32");
  const usable = bits.gt(0).and(bits.lt(infinity));
  const ratio = ofEach(({ max }) => max).div(counts);
  const fresh = ratio.mul(ofEach(({ margin }) => 2 ** -margin)).min(maxFloat32);
  const rolled =
    L === 1 ? zeros(history.shape, "float32") : concat([zeros(newest.shape, "float32"), slots(2, L), newest], 3);

  const delayed = tableOf(shape, rules, () => 1).gt(0);
  const changes = finite === undefined ? delayed : delayed.and(finite.broadcastTo(shape));
  return {
    scales: where(changes.and(usable), fresh, scales),
    history: where(changes.reshape(newest.shape).broadcastTo(history.shape), rolled, history),
  };
}

const maxFloat32 = 3.4028234663852886e38;
/** Bits of float32's infinity. */
const infinity = 0x7f800000;

/** A number for each rule, 0 where there is none: one repeated number where all are equal. */
function tableOf(
  shape: readonly number[],
  rules: readonly (ScaleRule | undefined)[],
  value: (rule: ScaleRule) => number,
): Tensor {
  const values = rules.map((rule) => (rule === undefined ? 0 : value(rule)));
  if (values.every((v) => v === values[0])) return full(shape, values[0]!, "float32");
  return constant(hostArray(shape, "float32", Float32Array.from(values)));
}
