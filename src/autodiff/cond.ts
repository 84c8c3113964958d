/**
 * cond: one of two functions, chosen when the program runs. Its reverse rule is a second cond over the same choice; what the
 * reverse of a branch reads of it becomes further outputs of the first, which the other branch fills with zeros.
 */
import { ShapeError } from "../base/errors.ts";
import {
  apply,
  isFloat,
  makeProgram,
  type Program,
  parameter,
  type Spec,
  sameShape,
  showSpec,
  Tensor,
  treePaths,
  treeUnflatten,
  zeros,
} from "../core/index.ts";
import type { Emitted, Emitter, Eqn, Op, VjpRule } from "../core/op.ts";
import { interpretProgram } from "../core/trace.ts";
import { checkFunction, tensorsIn } from "./arguments.ts";
import { backward } from "./backward.ts";
import { asGiven, type Captures, constantsAmong, edgeOf, leavesLike, readSince } from "./bodies.ts";

interface Branch {
  /** Inputs: captured tensors, then the operands inside the branch. */
  readonly program: Program;
  /** The outputs as traced, where they may be markers, which have reverse rules; the program sees through those. */
  readonly results: readonly Tensor[];
}

interface CondParams {
  /** Where the predicate is true, where it is false. */
  branches: readonly Branch[];
  numCaptures: number;
  /** Equations with greater numbers are in a branch, others around it. */
  readonly start: number;
}

/** Inputs: the predicate, captured tensors, operands. */
const condOp: Op<CondParams> = {
  name: "cond",
  shape: (_, { branches: [first] }) => first!.program.outputs,
  vjp: (args) => reverseCond(args),
  lower: emitCond,
  interpret: ([chosen, ...rest], { branches }) => interpretProgram(branches[chosen!.data[0] ? 0 : 1]!.program, rest),
  programs: ({ branches: [onTrue, onFalse] }) => ({ true: onTrue!.program, false: onFalse!.program }),
};

/**
 * onTrue(...operands) where `pred`, a bool scalar, is true, else onFalse(...operands); only the one chosen is computed. Both
 * give trees of one structure with the same shapes and dtypes. They may read any Tensor in scope, and derivatives go
 * through operands and through what they read. @throws ShapeError
 */
export function cond<A extends readonly unknown[], R>(
  pred: Tensor,
  onTrue: (...operands: A) => R,
  onFalse: (...operands: A) => R,
  ...operands: A
): R {
  if (!(pred instanceof Tensor) || pred.dtype !== "bool" || pred.rank !== 0) {
    const got = pred instanceof Tensor ? showSpec(pred) : typeof pred;
    throw new ShapeError(`cond: the predicate must be a bool scalar Tensor; got ${got}`);
  }
  checkFunction(onTrue, "cond: onTrue");
  checkFunction(onFalse, "cond: onFalse");
  const leaves = tensorsIn(operands, "cond: an operand");
  const own = leaves.map(parameter);
  const start = own.at(-1)?.id ?? parameter(pred).id;
  const inside = treeUnflatten<A>(operands, own);
  const results = [onTrue(...inside), onFalse(...inside)] as const;
  const outputs = sameResults(...results);
  const branches = outputs.map((list) => ({ own, outputs: list }));
  return treeUnflatten<R>(results[0], applyCond({ pred, operands: leaves, branches, start }));
}

/** The leaves of both results in one order. @throws ShapeError where they differ in structure, shape or dtype */
function sameResults(onTrue: unknown, onFalse: unknown): [Tensor[], Tensor[]] {
  const paths = treePaths(onTrue) as { path: string; leaf: Tensor }[];
  const first = paths.map(({ leaf }) => leaf);
  const second = leavesLike(onTrue, onFalse, "cond: what onTrue and onFalse give");
  paths.forEach(({ path, leaf }, i) => {
    const other = second[i]!;
    if (!(leaf instanceof Tensor && other instanceof Tensor))
      throw new ShapeError("cond: branches must return Tensors");
    if (leaf.dtype === other.dtype && sameShape(leaf.shape, other.shape)) return;
    const at = path === "" ? "" : ` at "${path}"`;
    throw new ShapeError(
      `cond: onTrue gives ${showSpec(leaf)}${at} and onFalse ${showSpec(other)}; both must give the same shapes and dtypes`,
    );
  });
  return [first, second];
}

interface CondParts {
  readonly pred: Tensor;
  readonly operands: readonly Tensor[];
  /** For each branch the operands inside it, and its outputs. */
  readonly branches: readonly { readonly own: readonly Tensor[]; readonly outputs: readonly Tensor[] }[];
  readonly start: number;
  /** Those of the cond whose reverse this is. */
  readonly forward?: Captures;
}

function applyCond({ pred, operands, branches, start, forward }: CondParts): readonly Tensor[] {
  const { captures, programs } = programsOf(branches, start);
  const params: CondParams = {
    branches: programs.map((program, i) => ({ program, results: branches[i]!.outputs })),
    numCaptures: captures.length,
    start,
  };
  const given = forward === undefined ? captures : asGiven(captures, forward);
  return apply(condOp, [pred, ...given, ...operands], params);
}

function programsOf(branches: CondParts["branches"], start: number): { captures: Tensor[]; programs: Program[] } {
  const read = branches.flatMap(({ own, outputs }) => readSince(start, outputs, new Set(own)));
  const captures = [...new Set(read)];
  return { captures, programs: branches.map(({ own, outputs }) => makeProgram([...captures, ...own], outputs)) };
}

const reverseCond: VjpRule<CondParams> = ({ inputs: [pred, ...inputs], params, cts, needs: [, ...needs], eqn }) => {
  const { branches, numCaptures, start } = params;
  const ctDims = cts.map((_, i) => i).filter((i) => cts[i] !== undefined);
  const ctIn = ctDims.map((i) => parameter(cts[i]!));
  const sources = inputs.map((_, i) => i).filter((i) => needs[i] && isFloat(inputs[i]!.dtype));
  const found = branches.map(({ program, results }) => {
    const outputCts = results.map((_, i) => ctIn[ctDims.indexOf(i)]);
    return backward(
      results,
      outputCts,
      sources.map((i) => program.inputs[i]!),
    );
  });
  const reached = sources.map((_, k) => k).filter((k) => found.some((list) => list[k] !== undefined));
  const outputs = found.map((list) =>
    reached.map((k) => list[k] ?? zeros(inputs[sources[k]!]!.shape, inputs[sources[k]!]!.dtype)),
  );

  const ownOf = ({ program }: Branch) => program.inputs.slice(numCaptures);
  const edges = branches.map((branch, k) => {
    const own = new Set(ownOf(branch));
    const edge = edgeOf(outputs[k]!, eqn);
    const constants = constantsAmong(edge);
    return edge.filter((t) => own.has(t) || (t.eqn !== undefined && t.eqn.id > start && !constants.has(t)));
  });
  const operandDims = inputs.slice(numCaptures).map((_, i) => i);
  const usedOperands = operandDims.filter((i) => branches.some((b, k) => edges[k]!.includes(ownOf(b)[i]!)));
  const kept = branches.map((branch, k) => edges[k]!.filter((t) => !ownOf(branch).includes(t)));
  const forward = capturesOfCond(eqn);
  const slots = growOutputs(eqn, kept);
  const grown = (eqn.params as CondParams).branches;
  const reversed = applyCond({
    pred: pred!,
    operands: [
      ...ctDims.map((i) => cts[i]!),
      ...usedOperands.map((i) => inputs[numCaptures + i]!),
      ...slots.map((i) => eqn.outputs[i]!),
    ],
    branches: branches.map((branch, k) => ({
      own: [
        ...ctIn,
        ...usedOperands.map((i) => ownOf(branch)[i]!),
        // A slot that another branch fills is nothing here.
        ...slots.map((i) => grown[k]!.results[i]!).map((t) => (kept[k]!.includes(t) ? t : parameter(t))),
      ],
      outputs: outputs[k]!,
    })),
    start: eqn.id,
    forward,
  });
  const all: (Tensor | undefined)[] = [undefined, ...inputs.map(() => undefined)];
  reached.forEach((k, i) => {
    all[1 + sources[k]!] = reversed[i];
  });
  return all;
};

function capturesOfCond({ inputs, params }: Eqn): Captures {
  const { branches, numCaptures } = params as CondParams;
  return { named: branches[0]!.program.inputs.slice(0, numCaptures), given: inputs.slice(1, 1 + numCaptures) };
}

/**
 * Makes the cond give values of its branches too; an output serves both branches where they keep one of the same shape and
 * dtype. Returns the places of all that are kept among the outputs.
 */
function growOutputs(eqn: Eqn, kept: readonly (readonly Tensor[])[]): number[] {
  const { branches, numCaptures, start } = eqn.params as CondParams;
  const numOutputs = eqn.outputs.length;
  const places = new Set<number>();
  const added: { readonly spec: Spec; readonly tensors: (Tensor | undefined)[] }[] = [];
  kept.forEach((tensors, k) => {
    for (const t of tensors) {
      const known = branches[k]!.results.indexOf(t);
      if (known >= 0) {
        places.add(known);
        continue;
      }
      const fits = ({ spec, tensors }: (typeof added)[number]) =>
        tensors[k] === undefined && spec.dtype === t.dtype && sameShape(spec.shape, t.shape);
      const free = added.find(fits) ?? { spec: t, tensors: [] };
      if (!added.includes(free)) added.push(free);
      free.tensors[k] = t;
    }
  });
  const parts = branches.map(({ program, results }, k) => ({
    own: program.inputs.slice(numCaptures),
    outputs: [...results, ...added.map(({ spec, tensors }) => tensors[k] ?? zeros(spec.shape, spec.dtype))],
  }));
  const operands = eqn.inputs.slice(1 + numCaptures);
  const { captures, programs } = programsOf(parts, start);
  const forward = capturesOfCond(eqn);
  eqn.params = {
    branches: programs.map((program, k) => ({ program, results: parts[k]!.outputs })),
    numCaptures: captures.length,
    start,
  } satisfies CondParams;
  eqn.inputs = [eqn.inputs[0]!, ...asGiven(captures, forward), ...operands];
  eqn.outputs = [...eqn.outputs, ...added.map(({ spec }) => new Tensor(spec, eqn))];
  return [...places, ...added.map((_, i) => numOutputs + i)];
}

function emitCond(e: Emitter, [pred, ...rest]: readonly Emitted[], params: CondParams, outputs: readonly Spec[]) {
  if (outputs.length === 0) return [];
  const regions = params.branches.map(({ program }) => ({ inputs: [], body: () => e.inline(program, rest) }));
  return e.op("stablehlo.if", [pred!], outputs, {}, regions);
}
