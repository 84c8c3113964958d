/**
 * What an operation is: one object that holds all its rules. A missing rule does not type-check.
 * To add an operation, write its object in the file of its family under `ops/` and export a function that applies it.
 */
import type { Spec } from "./hostArray.ts";
import type { Program } from "./program.ts";
import type { Scope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";
import type { Values } from "./values.ts";

/** A value of the emitted program: its name in the text and its type. */
export interface Emitted extends Spec {
  readonly name: string;
}

/** Devices in a grid of named axes, the slowest axis first; `sharding` makes them. */
export interface Mesh {
  readonly axes: readonly { readonly name: string; readonly size: number }[];
}

/** A region of an emitted operation: block arguments in, results out. */
export interface Region {
  readonly inputs: readonly Spec[];
  readonly body: (...args: Emitted[]) => readonly Emitted[];
  /** One device's part of a program: it sees nothing from outside, and the partitioner leaves it alone. */
  readonly perDevice?: boolean;
}

/** What lowering rules write to. `lower` implements it as StableHLO text. */
export interface Emitter {
  /** The mesh that the program is compiled for; undefined for one device. */
  readonly mesh: Mesh | undefined;
  /** Whether XLA's partitioner splits what is emitted now over the mesh: it can't split library calls. */
  readonly partitioned: boolean;
  /** Emits one operation, for example `op("stablehlo.add", [a, b], [a])`. */
  op(
    name: string,
    operands: readonly Emitted[],
    results: readonly Spec[],
    attributes?: Readonly<Record<string, string>>,
    regions?: readonly Region[],
  ): Emitted[];
  /** A constant with one value everywhere. */
  splat(value: number | boolean, spec: Spec): Emitted;
  /** A constant of many values. */
  dense(values: Values): Emitted;
  /** A function of the module that computes a program; its symbol, "@name". */
  func(name: string, program: Program): string;
  /** The operations of a program in place, its inputs bound to `args`. */
  inline(program: Program, args: readonly Emitted[]): Emitted[];
}

/** What a reverse rule may read. */
export interface VjpArguments<P> {
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly params: P;
  /** Cotangent of each output; undefined means zero. At least one is defined. */
  readonly cts: readonly (Tensor | undefined)[];
  /** Which inputs' cotangents are wanted; the others may be left undefined. */
  readonly needs: readonly boolean[];
  readonly eqn: Eqn;
}

/** Cotangent of each input, in the input's shape and dtype; undefined means zero. */
export type VjpRule<P> = (args: VjpArguments<P>) => readonly (Tensor | undefined)[];

export interface Op<P> {
  readonly name: string;
  /** Output shapes and dtypes. @throws ShapeError where the inputs do not fit. */
  readonly shape: (inputs: readonly Spec[], params: P) => readonly Spec[];
  /** Reverse rule; "none" for operations with no derivative (their cotangents are zero). */
  readonly vjp: VjpRule<P> | "none";
  /** Lowering on every platform; a platform's own table wins over it. */
  readonly lower: (e: Emitter, inputs: readonly Emitted[], params: P, outputs: readonly Spec[]) => readonly Emitted[];
  /** The reference evaluation in plain TypeScript. */
  readonly interpret: (inputs: readonly Values[], params: P, outputs: readonly Spec[]) => readonly Values[];
  /** Parameters as they read in a printed program; absent where there are none worth printing. */
  readonly show?: (params: P) => string;
  /** Programs that it runs, by name: the body of a loop. */
  readonly programs?: (params: P) => Readonly<Record<string, Program>>;
  /** How often it runs them; absent: once, or nobody knows. */
  readonly repeats?: (params: P) => number;
  /** Output i needs input i alone: a program leaves those out that it does not use. */
  readonly independentOutputs?: true;
  /** For markers that only carry a reverse rule: output i is this input, and the operation is not in any program. */
  readonly alias?: (inputs: readonly Tensor[], params: P, output: number) => Tensor;
}

/** An operation of whatever parameters. */
// biome-ignore lint/suspicious/noExplicitAny: equations of all operations share lists; each op's own params type holds inside its rules.
export type AnyOp = Op<any>;

/** One applied operation. Only reverse rules of operations with a body change one: they append outputs (the residuals they need). */
export interface Eqn {
  /** Order of tracing: inputs always have smaller numbers. */
  readonly id: number;
  readonly op: AnyOp;
  // biome-ignore lint/suspicious/noExplicitAny: see AnyOp.
  params: any;
  inputs: readonly Tensor[];
  outputs: readonly Tensor[];
  readonly scope: Scope;
}
