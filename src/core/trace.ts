/** From a function of Tensors to a Program, and running one in plain TypeScript. */
import { UserError } from "../base/errors.ts";
import { dtypeInfo } from "./dtype.ts";
import { checkHostArray, type HostArray, isHostArray, type Spec } from "./hostArray.ts";
import type { Eqn } from "./op.ts";
import { checkShape } from "./ops/shape.ts";
import { notingPlaces } from "./places.ts";
import { makeProgram, type Program } from "./program.ts";
import { parameter, Tensor } from "./tensor.ts";
import { type MapTree, treeLeaves, treePaths, treeUnflatten } from "./tree.ts";
import { toHostArray, toValues, type Values } from "./values.ts";

export interface Traced<R> {
  readonly program: Program;
  /** The function's result, whose leaves are the program's outputs in order. */
  readonly result: R;
}

/** Traces f over trees of Specs (or anything with shape and dtype). @throws ShapeError from the user's line */
export function traceFunction<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  specs: readonly unknown[],
): Traced<R> {
  try {
    return traceOnce(f, specs);
  } catch (error) {
    // Once more, to say which line it was.
    if (error instanceof UserError && error.code === "E_ESCAPED") return notingPlaces(() => traceOnce(f, specs));
    throw error;
  }
}

function traceOnce<A extends readonly unknown[], R>(f: (...args: A) => R, specs: readonly unknown[]): Traced<R> {
  const args = specs.map((tree) =>
    treeUnflatten(
      tree,
      treePaths(tree).map(({ leaf, path }) => argument(leaf, path)),
    ),
  );
  const result = f(...(args as unknown as A));
  const outputs = treePaths(result);
  for (const { path, leaf } of outputs) {
    if (leaf instanceof Tensor) continue;
    const got = leaf instanceof Promise ? "a Promise: it can't be async, nor call a compiled function" : typeof leaf;
    if (leaf instanceof Promise) leaf.catch(() => {});
    throw new UserError("E_RESULT", `a traced function must return Tensors; got ${got}${path && ` at "${path}"`}`);
  }
  const program = makeProgram(treeLeaves<Tensor>(args), treeLeaves<Tensor>(result));
  const pathsOf = (paths: readonly { path: string }[]) => paths.map(({ path }) => path);
  return { program: { ...program, inputPaths: pathsOf(treePaths(args)), outputPaths: pathsOf(outputs) }, result };
}

function argument(leaf: unknown, path: string): Tensor {
  const { shape, dtype } = Object(leaf) as Partial<Spec>;
  if (!Array.isArray(shape) || typeof dtype !== "string") {
    throw new UserError(
      "E_ARGUMENT",
      `an argument has a shape and a dtype, such as a host array or spec([2, 3], "float32"); got ${typeof leaf}${path && ` at "${path}"`}`,
    );
  }
  checkShape("an argument", shape);
  dtypeInfo(dtype);
  return parameter({ shape, dtype });
}

/** The program of f for arguments of the given specs; `showProgram` prints it. */
export function trace<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  ...specs: { [K in keyof A]: unknown }
): Program {
  return traceFunction(f, specs).program;
}

/** Runs a program's equations on values of any kind, which are dropped after their last use. */
export function evaluateProgram<V>(
  program: Program,
  inputs: readonly V[],
  evaluate: (eqn: Eqn, operands: readonly V[]) => readonly V[],
): V[] {
  const values = new Map<Tensor, V>(program.inputs.map((t, i) => [t, inputs[i]!]));
  const lastUse = new Map<Tensor, number>();
  program.eqns.forEach((eqn, i) => {
    for (const input of eqn.inputs) lastUse.set(program.resolve(input), i);
  });
  for (const output of program.outputs) lastUse.set(output, program.eqns.length);
  program.eqns.forEach((eqn, i) => {
    const operands = eqn.inputs.map(program.resolve);
    const results = evaluate(
      eqn,
      operands.map((t) => values.get(t)!),
    );
    eqn.outputs.forEach((t, j) => {
      values.set(t, results[j]!);
    });
    for (const t of operands) if (lastUse.get(t) === i) values.delete(t);
  });
  return program.outputs.map((t) => values.get(t)!);
}

/** Evaluates a program with the operations' own TypeScript rules. */
export function interpretProgram(program: Program, inputs: readonly Values[]): Values[] {
  return evaluateProgram(program, inputs, ({ op, params, outputs }, operands) =>
    op.interpret(operands, params, outputs),
  );
}

/** The reference evaluator: f over trees of host arrays, without a device. The oracle of the compiled path. */
export function interpret<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  ...args: { [K in keyof A]: MapTree<A[K], Tensor, HostArray> }
): MapTree<R, Tensor, HostArray> {
  for (const host of treeLeaves(args)) {
    if (!isHostArray(host)) throw new UserError("E_ARGUMENT", `interpret takes host arrays; got ${typeof host}`);
    checkHostArray(host);
  }
  const { program, result } = traceFunction(f, args);
  return treeUnflatten(result, interpretProgram(program, treeLeaves<HostArray>(args).map(toValues)).map(toHostArray));
}
