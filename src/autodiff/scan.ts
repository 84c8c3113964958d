/**
 * scan: one body, run `length` times, a carry handed from each step to the next. Its reverse rule runs the body's reverse
 * in a second scan, from the last step to the first, over what that needs of the forward steps: values of a step are
 * stacked as further outputs of the forward scan, values from outside are read again.
 */
import { ShapeError } from "../base/errors.ts";
import {
  apply,
  dtypeInfo,
  isFloat,
  makeProgram,
  type Program,
  parameter,
  type Spec,
  showSpec,
  Tensor,
  treeUnflatten,
  zeros,
} from "../core/index.ts";
import type { Emitted, Emitter, Eqn, Op, VjpRule } from "../core/op.ts";
import { interpretProgram } from "../core/trace.ts";
import { allocate, type Values } from "../core/values.ts";
import { checkFunction, checkKeys, tensorsIn } from "./arguments.ts";
import { backward } from "./backward.ts";
import { asGiven, type Captures, capturesOf, residualsOf, sameCarry } from "./bodies.ts";

interface ScanParams {
  /** Inputs: captured tensors, carry, one step's slices of xs. Outputs: next carry, one step's ys. */
  body: Program;
  /** The body's outputs as traced, where they may be markers, which have reverse rules; the program sees through those. */
  results: readonly Tensor[];
  numCaptures: number;
  readonly numCarry: number;
  readonly length: number;
  readonly reverse: boolean;
  readonly unroll: number;
}

const dropDim0 = ({ shape, dtype }: Spec): Spec => ({ shape: shape.slice(1), dtype });
const summed = ({ shape, dtype }: Spec): Spec => ({ shape, dtype: dtypeInfo(dtype).bits < 32 ? "float32" : dtype });
const stacked = ({ shape, dtype }: Spec, length: number): Spec => ({ shape: [length, ...shape], dtype });

const scanOp: Op<ScanParams> = {
  name: "scan",
  shape: (_, { body, numCarry, length }) => body.outputs.map((t, i) => (i < numCarry ? t : stacked(t, length))),
  vjp: (args) => reverseScan(args),
  lower: emitScan,
  interpret: (inputs, params) => interpretScan(inputs, params),
  show: ({ length, reverse, unroll }) =>
    `length=${length}${reverse ? " reverse" : ""}${unroll > 1 ? ` unroll=${unroll}` : ""}`,
  programs: ({ body }) => ({ body }),
  repeats: ({ length }) => length,
};

export interface ScanOptions {
  /** Number of steps; needed where there are no xs. */
  readonly length?: number;
  /** From the last slice to the first; ys keep the order of xs. */
  readonly reverse?: boolean;
  /** Steps that the compiled loop takes at a time, forward and backward: a larger program, the same bits. Default 1. */
  readonly unroll?: number;
}

/**
 * Runs body(carry, x) → { carry, y } for each slice of `xs` along dim 0, giving the last carry and the stacked ys.
 * The carry's shapes and dtypes stay the same. @throws ShapeError
 */
export function scan<C, X, Y>(
  body: (carry: C, x: X) => { carry: C; y: Y },
  init: C,
  xs: X,
  { length, reverse = false, unroll = 1 }: ScanOptions = {},
): { carry: C; ys: Y } {
  checkFunction(body, "scan: the body");
  const [initLeaves, xLeaves] = [tensorsIn(init, "scan: init"), tensorsIn(xs, "scan: xs")];
  const scalar = xLeaves.find((x) => x.rank === 0);
  if (scalar) throw new ShapeError(`scan: xs must have a dim 0 to step along; got ${showSpec(scalar)}`);
  const steps = length ?? xLeaves[0]?.shape[0];
  if (steps === undefined) throw new ShapeError("scan: give `length` where there are no xs");
  if (!(Number.isSafeInteger(steps) && steps >= 0))
    throw new ShapeError(`scan: length must be a whole number ≥ 0; got ${steps}`);
  if (!(Number.isSafeInteger(unroll) && unroll >= 1))
    throw new ShapeError(`scan: unroll must be a whole number ≥ 1; got ${unroll}`);
  for (const x of xLeaves) {
    if (x.shape[0] !== steps)
      throw new ShapeError(`scan: xs must have ${steps} slices along dim 0; got ${showSpec(x)}`);
  }
  const carryIn = initLeaves.map(parameter);
  const xIn = xLeaves.map((x) => parameter(dropDim0(x)));
  const result = body(treeUnflatten<C>(init, carryIn), treeUnflatten<X>(xs, xIn));
  checkKeys(result, ["carry", "y"], "scan: the body must return { carry, y }");
  tensorsIn(result.carry, "scan: the body's carry");
  const carryOut = sameCarry("scan: the carry", init, carryIn, result.carry);
  const ys = tensorsIn(result.y, "scan: the body's y");
  const outputs = applyScan({
    carryIn,
    xIn,
    outputs: [...carryOut, ...ys],
    init: initLeaves,
    xs: xLeaves,
    length: steps,
    reverse,
    unroll,
  });
  const numCarry = carryIn.length;
  return {
    carry: treeUnflatten<C>(init, outputs.slice(0, numCarry)),
    ys: treeUnflatten<Y>(result.y, outputs.slice(numCarry)),
  };
}

interface ScanParts extends Pick<ScanParams, "length" | "reverse" | "unroll"> {
  readonly carryIn: readonly Tensor[];
  readonly xIn: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly init: readonly Tensor[];
  readonly xs: readonly Tensor[];
  /** Those of the scan whose reverse this is. */
  readonly forward?: Captures;
}

function applyScan({ carryIn, xIn, outputs, init, xs, forward, ...way }: ScanParts): readonly Tensor[] {
  const captures = capturesOf(outputs, [...carryIn, ...xIn]);
  const body = makeProgram([...captures, ...carryIn, ...xIn], outputs);
  const params: ScanParams = {
    body,
    results: outputs,
    numCaptures: captures.length,
    numCarry: carryIn.length,
    ...way,
  };
  const given = forward === undefined ? captures : asGiven(captures, forward);
  return apply(scanOp, [...given, ...init, ...xs], params);
}

/** Parts of a list of the scan's or the body's inputs. */
function split<T>(list: readonly T[], { numCaptures, numCarry }: ScanParams) {
  return {
    captures: list.slice(0, numCaptures),
    carry: list.slice(numCaptures, numCaptures + numCarry),
    xs: list.slice(numCaptures + numCarry),
  };
}

const reverseScan: VjpRule<ScanParams> = ({ inputs, params, cts, needs, eqn }) => {
  const { body, results: outs, numCarry, length, reverse, unroll } = params;
  const own = split(body.inputs, params);
  const outer = split(inputs, params);
  const wanted = split(needs, params);
  // Cotangents exist for float carries, for the captures that need one, and for the ys that have one.
  const carryDims = own.carry.map((_, i) => i).filter((i) => isFloat(own.carry[i]!.dtype));
  const needed = own.captures.filter((t, i) => wanted.captures[i] && isFloat(t.dtype));
  const ysWithCt = cts.map((_, i) => i).filter((i) => i >= numCarry && cts[i] !== undefined);
  const xDims = own.xs.map((_, i) => i).filter((i) => wanted.xs[i]);

  const ctCarry = carryDims.map((i) => parameter(own.carry[i]!));
  const ctYs = ysWithCt.map((i) => parameter(outs[i]!));
  const outputCts = outs.map((_, i) => (i < numCarry ? ctCarry[carryDims.indexOf(i)] : ctYs[ysWithCt.indexOf(i)]));
  const sources = [...carryDims.map((i) => own.carry[i]!), ...needed, ...xDims.map((i) => own.xs[i]!)];
  const found = new Map(backward(outs, outputCts, sources).map((ct, i) => [sources[i]!, ct]));
  const orZero = (ct: Tensor | undefined, like: Tensor) => ct ?? zeros(like.shape, like.dtype);
  const dCarry = carryDims.map((dim) => orZero(found.get(own.carry[dim]!), own.carry[dim]!));
  const captured = needed.filter((t) => found.get(t) !== undefined);
  // Sums over the steps; of narrow floats in float32, rounded once after the last.
  const sums = captured.map((t) => parameter(summed(t)));
  const dSums = captured.map((t, i) => sums[i]!.add(found.get(t)!.astype(sums[i]!.dtype)));
  const dXs = xDims.map((dim) => orZero(found.get(own.xs[dim]!), own.xs[dim]!));
  const results = [...dCarry, ...dSums, ...dXs];

  const residuals = residualsOf(results, eqn, [...own.carry, ...own.xs]);
  growOutputs(
    eqn,
    residuals.filter((t) => !own.xs.includes(t)),
  );
  const grown = (eqn.params as ScanParams).results;
  const xsOf = (t: Tensor) =>
    own.xs.includes(t) ? outer.xs[own.xs.indexOf(t)]! : eqn.outputs[grown.indexOf(t, numCarry)]!;

  const outputs = applyScan({
    carryIn: [...ctCarry, ...sums],
    xIn: [...ctYs, ...residuals],
    outputs: results,
    init: [...carryDims.map((i) => orZero(cts[i], own.carry[i]!)), ...sums.map((t) => zeros(t.shape, t.dtype))],
    xs: [...ysWithCt.map((i) => cts[i]!), ...residuals.map(xsOf)],
    length,
    reverse: !reverse,
    unroll,
    forward: { named: own.captures, given: outer.captures },
  });
  const all: (Tensor | undefined)[] = inputs.map(() => undefined);
  own.captures.forEach((t, i) => {
    if (captured.includes(t)) all[i] = outputs[carryDims.length + captured.indexOf(t)]!.astype(t.dtype);
  });
  carryDims.forEach((dim, i) => {
    all[params.numCaptures + dim] = outputs[i];
  });
  xDims.forEach((dim, i) => {
    all[inputs.length - outer.xs.length + dim] = outputs[carryDims.length + captured.length + i];
  });
  return all;
};

/** Makes the forward scan also stack `extra` tensors of each step, after its other outputs. */
function growOutputs(eqn: Eqn, extra: readonly Tensor[]): void {
  const params = eqn.params as ScanParams;
  const own = split(params.body.inputs, params);
  const outer = split(eqn.inputs, params);
  const added = extra.filter((t) => params.results.indexOf(t, params.numCarry) < 0);
  const outputs = [...params.results, ...added];
  const captures = capturesOf(outputs, [...own.carry, ...own.xs]);
  const body = makeProgram([...captures, ...own.carry, ...own.xs], outputs);
  eqn.params = { ...params, body, results: outputs, numCaptures: captures.length } satisfies ScanParams;
  const given = asGiven(captures, { named: own.captures, given: outer.captures });
  eqn.inputs = [...given, ...outer.carry, ...outer.xs];
  eqn.outputs = [...eqn.outputs, ...added.map((t) => new Tensor(stacked(t, params.length), eqn))];
}

function interpretScan(inputs: readonly Values[], params: ScanParams): Values[] {
  const { body, numCarry, length, reverse } = params;
  const { captures, carry: init, xs } = split(inputs, params);
  let carry = init;
  const ys = body.outputs.slice(numCarry).map((t) => {
    const spec = stacked(t, length);
    return {
      ...spec,
      data: allocate(
        spec.dtype,
        spec.shape.reduce((a, b) => a * b, 1),
      ),
    };
  });
  for (let n = 0; n < length; n++) {
    const step = reverse ? length - 1 - n : n;
    const slices = xs.map((x): Values => {
      const size = x.data.length / length;
      return { ...dropDim0(x), data: x.data.slice(step * size, (step + 1) * size) };
    });
    const results = interpretProgram(body, [...captures, ...carry, ...slices]);
    carry = results.slice(0, numCarry);
    results.slice(numCarry).forEach((y, i) => ys[i]!.data.set(y.data, step * y.data.length));
  }
  return [...carry, ...ys];
}

/**
 * A while loop over (step, carry, stacks of ys); captures and xs are read from around it. An iteration is `unroll` steps;
 * those that are left over follow the loop.
 */
function emitScan(e: Emitter, inputs: readonly Emitted[], params: ScanParams, outputs: readonly Spec[]): Emitted[] {
  const { body, numCarry, length, unroll } = params;
  const { carry } = split(inputs, params);
  // A slice of no steps does not type-check, even in a loop that never runs.
  if (length === 0) return [...carry, ...outputs.slice(numCarry).map((spec) => e.splat(0, spec))];
  // Markers of one tensor share a stack.
  const stackOf = body.outputs.slice(numCarry);
  const distinct = [...new Set(stackOf)];
  const stacks = distinct.map((y) => e.splat(0, stacked(y, length)));
  let [n, ...state]: readonly Emitted[] = [e.splat(0, counter), ...carry, ...stacks];
  const iterations = Math.floor(length / unroll);
  const looped = iterations > 1 ? iterations * unroll : 0;
  if (looped > 0) {
    const specs: Spec[] = [n!, ...state].map(({ shape, dtype }) => ({ shape, dtype }));
    const condition = (n?: Emitted) => [lessThan(e, n!, e.splat(looped, counter))];
    const context = { inputs, params, distinct, count: unroll };
    [n, ...state] = e.op("stablehlo.while", [n!, ...state], specs, {}, [
      { inputs: specs, body: condition },
      { inputs: specs, body: (n, ...rest) => emitSteps(e, context, n!, rest) },
    ]);
  }
  if (looped < length) {
    // As around a loop, nothing is fused into these steps from what is before and after them.
    const held = barrier(e, [n!, ...state, ...inputs]);
    const context = { inputs: held.slice(1 + state.length), params, distinct, count: length - looped };
    [n, ...state] = barrier(e, emitSteps(e, context, held[0]!, held.slice(1, 1 + state.length)));
  }
  const found = state.slice(numCarry);
  return [...state.slice(0, numCarry), ...stackOf.map((y) => found[distinct.indexOf(y)]!)];
}

const counter: Spec = { shape: [], dtype: "int32" };

const lessThan = (e: Emitter, a: Emitted, b: Emitted): Emitted =>
  e.op("stablehlo.compare", [a, b], [{ shape: [], dtype: "bool" }], {
    comparison_direction: "#stablehlo<comparison_direction LT>",
    compare_type: "#stablehlo<comparison_type SIGNED>",
  })[0]!;

const barrier = (e: Emitter, values: readonly Emitted[]): readonly Emitted[] =>
  e.op("stablehlo.optimization_barrier", values, values);

interface StepContext {
  readonly inputs: readonly Emitted[];
  readonly params: ScanParams;
  /** The ys that have a stack each. */
  readonly distinct: readonly Tensor[];
  /** Steps one after the other. */
  readonly count: number;
}

/** Steps from n on, and the number of the next: nothing is fused across them, so a step's bits are the same in each. */
function emitSteps(e: Emitter, context: StepContext, n: Emitted, state: readonly Emitted[]): readonly Emitted[] {
  let now = [n, ...state];
  for (let i = 0; i < context.count; i++) {
    const [n, ...before] = i === 0 ? now : barrier(e, now);
    const after = emitStep(e, context, n!, before);
    now = [e.op("stablehlo.add", [n!, e.splat(1, counter)], [counter])[0]!, ...after];
  }
  return now;
}

/** Step n: (carry, stacks) → (carry, stacks). */
function emitStep(e: Emitter, { inputs, params, distinct }: StepContext, n: Emitted, state: readonly Emitted[]) {
  const { body, numCarry, length, reverse } = params;
  const { captures, xs } = split(inputs, params);
  const zero = () => e.splat(0, counter);
  const at = reverse ? e.op("stablehlo.subtract", [e.splat(length - 1, counter), n], [counter])[0]! : n;
  const slices = xs.map((x) => {
    const one: Spec = { shape: [1, ...x.shape.slice(1)], dtype: x.dtype };
    const [slice] = e.op("stablehlo.dynamic_slice", [x, at, ...x.shape.slice(1).map(zero)], [one], {
      slice_sizes: `array<i64: ${one.shape.join(", ")}>`,
    });
    return e.op("stablehlo.reshape", [slice!], [dropDim0(x)])[0]!;
  });
  const outputs = e.inline(body, [...captures, ...state.slice(0, numCarry), ...slices]);
  const stacks = distinct.map((tensor, i) => {
    const y = outputs[body.outputs.indexOf(tensor)]!;
    const [row] = e.op("stablehlo.reshape", [y], [stacked(y, 1)]);
    const stack = state[numCarry + i]!;
    return e.op("stablehlo.dynamic_update_slice", [stack, row!, at, ...y.shape.map(zero)], [stack])[0]!;
  });
  return [...outputs.slice(0, numCarry), ...stacks];
}
