/**
 * Composites: a function under a name by which a compiler may know a better form of it. What it is made of stays in the
 * program as its decomposition, which is what the interpreter runs and what derivatives are taken of.
 */
import { ShapeError } from "../base/errors.ts";
import {
  apply,
  interpretProgram,
  makeProgram,
  type Program,
  parameter,
  type Tensor,
  treeUnflatten,
} from "../core/index.ts";
import type { Op } from "../core/op.ts";
import { type Attributes, checkAttributes, mlirDictionary, mlirString } from "../core/ops/attributes.ts";
import { copy } from "../core/ops/identity.ts";
import { tensorsIn } from "./arguments.ts";
import { backward } from "./backward.ts";
import { capturesOf } from "./bodies.ts";
import { replay } from "./remat.ts";

interface CompositeParams {
  readonly name: string;
  readonly attributes: Attributes;
  /** Inputs: captured tensors, then the arguments. */
  readonly body: Program;
  /** The body's outputs as traced, where they may be markers, which have reverse rules. */
  readonly results: readonly Tensor[];
  /** Where no platform's table knows it: the body in place, not a StableHLO composite. */
  readonly inPlace: boolean;
}

export const compositeOp: Op<CompositeParams> = {
  name: "composite",
  shape: (_, { results }) => results,
  vjp: ({ inputs, params: { body, results }, cts }) => {
    const own = inputs.map(copy);
    const again = replay(results, new Map(body.inputs.map((t, i) => [t, own[i]!])));
    return backward(again, cts, own);
  },
  lower: (e, inputs, { name, attributes, body, inPlace }, outputs) =>
    inPlace
      ? e.inline(body, inputs)
      : e.op("stablehlo.composite", inputs, outputs, {
          name: mlirString(name),
          composite_attributes: mlirDictionary(attributes),
          decomposition: e.func(name, body),
          version: "1 : i32",
        }),
  interpret: (inputs, { body }) => interpretProgram(body, inputs),
  show: ({ name, attributes }) =>
    Object.keys(attributes).length === 0 ? name : `${name} ${mlirDictionary(attributes)}`,
  programs: ({ body }) => ({ body }),
};

/**
 * f as a StableHLO composite called `name` ("vendor.operation"), with `attributes` for the compiler. f takes and gives trees
 * of Tensors and may read Tensors in scope. @throws ShapeError
 */
export function composite<A extends readonly unknown[], R>(
  name: string,
  f: (...args: A) => R,
  attributes: Attributes = {},
): (...args: A) => R {
  if (!/^[a-zA-Z]\w*(\.[\w$]+)+$/.test(name)) {
    throw new ShapeError(`composite: a name is "vendor.operation", two words with a dot between; got "${name}"`);
  }
  checkAttributes(`composite ${name}`, attributes);
  return applied(f, { name, attributes, inPlace: false });
}

/**
 * f, for which Halfbyte's lowering for the platform may know a kernel called `name`, which is given the `attributes`. Without
 * one, programs are as if f had been called.
 */
export function withKernel<A extends readonly unknown[], R>(
  name: string,
  f: (...args: A) => R,
  attributes: Attributes = {},
): (...args: A) => R {
  return applied(f, { name, attributes, inPlace: true });
}

function applied<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  options: Pick<CompositeParams, "name" | "attributes" | "inPlace">,
): (...args: A) => R {
  return (...args) => {
    const leaves = tensorsIn(args, "composite: an argument");
    const inside = leaves.map(parameter);
    const out = f(...treeUnflatten<A>([...args], inside));
    const results = tensorsIn(out, "composite: the function's result");
    const captures = capturesOf(results, inside);
    const body = makeProgram([...captures, ...inside], results);
    return treeUnflatten<R>(out, apply(compositeOp, [...captures, ...leaves], { ...options, body, results }));
  };
}
