/** whileLoop: a body run while a condition holds. The number of steps is known only when it has run. */
import { ShapeError, UserError } from "../base/errors.ts";
import { apply, makeProgram, type Program, parameter, type Spec, Tensor, treeUnflatten } from "../core/index.ts";
import type { Emitted, Emitter, Op } from "../core/op.ts";
import { interpretProgram } from "../core/trace.ts";
import type { Values } from "../core/values.ts";
import { checkFunction, tensorsIn } from "./arguments.ts";
import { capturesOf, sameCarry } from "./bodies.ts";

interface WhileParams {
  /** Inputs of both: captured tensors, then the state. */
  readonly condition: Program;
  readonly body: Program;
  readonly numCaptures: number;
}

const whileOp: Op<WhileParams> = {
  name: "while_loop",
  shape: (_, { body }) => body.outputs,
  vjp: () => {
    throw new UserError(
      "E_WHILE_GRADIENT",
      "whileLoop has no derivative, since its number of steps is unknown before it runs: use scan with a largest length, and where(…) to leave the carry as it is in steps past the end",
    );
  },
  lower: emitWhile,
  interpret: (inputs, { condition, body, numCaptures }) => {
    const captures = inputs.slice(0, numCaptures);
    let state = inputs.slice(numCaptures);
    const holds = (state: readonly Values[]) => interpretProgram(condition, [...captures, ...state])[0]!.data[0] !== 0;
    while (holds(state)) state = interpretProgram(body, [...captures, ...state]);
    return state;
  },
  programs: ({ condition, body }) => ({ condition, body }),
};

/**
 * The state after running state ← body(state) from `init` while condition(state), a bool scalar, holds: perhaps never. The
 * state is a tree whose shapes and dtypes stay the same. Both functions may read any Tensor in scope. It has no derivative;
 * `scan` has. @throws ShapeError
 */
export function whileLoop<S>(condition: (state: S) => Tensor, body: (state: S) => S, init: S): S {
  checkFunction(condition, "whileLoop: the condition");
  checkFunction(body, "whileLoop: the body");
  const leaves = tensorsIn(init, "whileLoop: init");
  const own = leaves.map(parameter);
  const state = treeUnflatten<S>(init, own);
  const holds = condition(state);
  if (!(holds instanceof Tensor) || holds.dtype !== "bool" || holds.rank !== 0) {
    throw new ShapeError(
      `whileLoop: the condition must give a bool scalar; got ${holds instanceof Tensor ? holds : typeof holds}`,
    );
  }
  const after = body(state);
  tensorsIn(after, "whileLoop: the state after a step");
  const next = sameCarry("whileLoop: the state", init, own, after);
  const captures = capturesOf([holds, ...next], own);
  const inputs = [...captures, ...own];
  const params: WhileParams = {
    condition: makeProgram(inputs, [holds]),
    body: makeProgram(inputs, next),
    numCaptures: captures.length,
  };
  return treeUnflatten<S>(init, apply(whileOp, [...captures, ...leaves], params));
}

function emitWhile(e: Emitter, inputs: readonly Emitted[], params: WhileParams, outputs: readonly Spec[]) {
  const { condition, body, numCaptures } = params;
  const captures = inputs.slice(0, numCaptures);
  const specs = outputs.map(({ shape, dtype }) => ({ shape, dtype }));
  const region = (program: Program) => ({
    inputs: specs,
    body: (...state: Emitted[]) => e.inline(program, [...captures, ...state]),
  });
  return e.op("stablehlo.while", inputs.slice(numCaptures), specs, {}, [region(condition), region(body)]);
}
