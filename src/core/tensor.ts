/**
 * Tensors are symbolic: nodes of a graph of operations, owning no memory. Calling a method adds an operation.
 * Numbers take the tensor's dtype; two tensors must have the same dtype; shapes broadcast from the right.
 */
import { ShapeError } from "../base/errors.ts";
import type { DType } from "./dtype.ts";
import { type Shape, type Spec, showSpec } from "./hostArray.ts";
import type { AnyOp, Eqn, Op } from "./op.ts";
import { full } from "./ops/constant.ts";
import { bitcast, convert } from "./ops/convert.ts";
import * as elementwise from "./ops/elementwise.ts";
import { reduceProduct } from "./ops/product.ts";
import { type ReduceOptions, reduceAll, reduceAny, reduceMax, reduceMean, reduceMin, reduceSum } from "./ops/reduce.ts";
import * as shapes from "./ops/shape.ts";
import { notePlace } from "./places.ts";
import { currentScope } from "./scope.ts";

let nextId = 0;

export class Tensor implements Spec {
  readonly shape: Shape;
  readonly dtype: DType;
  /** The operation that makes it; undefined for a parameter of a program. */
  readonly eqn: Eqn | undefined;
  readonly id: number;

  /** Use `apply` or `parameter`. */
  constructor({ shape, dtype }: Spec, eqn?: Eqn) {
    this.shape = shape;
    this.dtype = dtype;
    this.eqn = eqn;
    this.id = nextId++;
  }

  get rank(): number {
    return this.shape.length;
  }

  toString(): string {
    return `Tensor(${showSpec(this)})`;
  }

  /** Operators and conditions of the language cannot see a value that does not exist yet. @throws ShapeError */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === "string") return this.toString();
    throw new ShapeError(
      `${this} has no value while a function is traced: write .add(…), .gt(…) instead of operators, where(condition, a, b) instead of if`,
    );
  }

  // Arithmetic.
  /** Sum. */
  add(other: Operand): Tensor {
    return elementwise.add(...pair(this, other, "add"));
  }
  /** Difference. */
  sub(other: Operand): Tensor {
    return elementwise.sub(...pair(this, other, "sub"));
  }
  /** Product. */
  mul(other: Operand): Tensor {
    return elementwise.mul(...pair(this, other, "mul"));
  }
  /** Of integers toward zero, and by 0 all bits set. */
  div(other: Operand): Tensor {
    return elementwise.div(...pair(this, other, "div"));
  }
  /** Remainder with the sign of the dividend; of an integer and 0 the dividend. */
  rem(other: Operand): Tensor {
    return elementwise.rem(...pair(this, other, "rem"));
  }
  /** `this` to the power `other`. */
  pow(other: Operand): Tensor {
    return elementwise.pow(...pair(this, other, "pow"));
  }
  /** The larger; NaN where either is, and at a tie the gradient goes to `this`. */
  max(other: Operand): Tensor {
    return elementwise.max(...pair(this, other, "max"));
  }
  /** The smaller; NaN where either is, and at a tie the gradient goes to `this`. */
  min(other: Operand): Tensor {
    return elementwise.min(...pair(this, other, "min"));
  }

  // Bits and booleans.
  /** Of integers bit by bit, of booleans logical. */
  and(other: Operand): Tensor {
    return elementwise.and(...pair(this, other, "and"));
  }
  /** Of integers bit by bit, of booleans logical. */
  or(other: Operand): Tensor {
    return elementwise.or(...pair(this, other, "or"));
  }
  /** Of integers bit by bit, of booleans logical. */
  xor(other: Operand): Tensor {
    return elementwise.xor(...pair(this, other, "xor"));
  }
  /** Of integers bit by bit, of booleans logical. */
  not(): Tensor {
    return elementwise.not(this);
  }
  /** Zeros come in from the right. */
  shiftLeft(bits: Operand): Tensor {
    return elementwise.shiftLeft(...pair(this, bits, "shiftLeft"));
  }
  /** Logical: zeros come in from the left. */
  shiftRight(bits: Operand): Tensor {
    return elementwise.shiftRight(...pair(this, bits, "shiftRight"));
  }

  // Comparisons.
  /** Equal, as booleans; false where either is NaN. */
  eq(other: Operand): Tensor {
    return elementwise.compare("EQ", ...pair(this, other, "eq"));
  }
  /** Different, as booleans; true where either is NaN. */
  ne(other: Operand): Tensor {
    return elementwise.compare("NE", ...pair(this, other, "ne"));
  }
  /** Less, as booleans; false where either is NaN. */
  lt(other: Operand): Tensor {
    return elementwise.compare("LT", ...pair(this, other, "lt"));
  }
  /** Less or equal, as booleans; false where either is NaN. */
  le(other: Operand): Tensor {
    return elementwise.compare("LE", ...pair(this, other, "le"));
  }
  /** Greater, as booleans; false where either is NaN. */
  gt(other: Operand): Tensor {
    return elementwise.compare("GT", ...pair(this, other, "gt"));
  }
  /** Greater or equal, as booleans; false where either is NaN. */
  ge(other: Operand): Tensor {
    return elementwise.compare("GE", ...pair(this, other, "ge"));
  }

  // One operand.
  /** −x. */
  neg(): Tensor {
    return elementwise.neg(this);
  }
  /** Magnitude. */
  abs(): Tensor {
    return elementwise.abs(this);
  }
  /** −1, 0 or 1; NaN of NaN. */
  sign(): Tensor {
    return elementwise.sign(this);
  }
  /** e to the power x. */
  exp(): Tensor {
    return elementwise.exp(this);
  }
  /** Natural logarithm. */
  log(): Tensor {
    return elementwise.log(this);
  }
  /** log(1 + x), exact near 0. */
  log1p(): Tensor {
    return elementwise.log1p(this);
  }
  /** exp(x) − 1, exact near 0. */
  expm1(): Tensor {
    return elementwise.expm1(this);
  }
  /** Square root. */
  sqrt(): Tensor {
    return elementwise.sqrt(this);
  }
  /** 1 / √x. */
  rsqrt(): Tensor {
    return elementwise.rsqrt(this);
  }
  /** Hyperbolic tangent. */
  tanh(): Tensor {
    return elementwise.tanh(this);
  }
  /** 1 / (1 + exp(−x)). */
  sigmoid(): Tensor {
    return elementwise.sigmoid(this);
  }
  /** The error function. */
  erf(): Tensor {
    return elementwise.erf(this);
  }
  /** Sine of radians. */
  sin(): Tensor {
    return elementwise.sin(this);
  }
  /** Cosine of radians. */
  cos(): Tensor {
    return elementwise.cos(this);
  }
  /** The next integer toward −∞. */
  floor(): Tensor {
    return elementwise.floor(this);
  }
  /** The next integer toward +∞. */
  ceil(): Tensor {
    return elementwise.ceil(this);
  }
  /** Nearest integer, ties to even. */
  roundEven(): Tensor {
    return elementwise.roundEven(this);
  }
  /** Neither infinite nor NaN, as booleans. */
  isFinite(): Tensor {
    return elementwise.finite(this);
  }

  /** Whether it is NaN, as booleans. */
  isNaN(): Tensor {
    return elementwise.nan(this);
  }

  // Types and shapes.
  /** Converts, rounding to nearest even. float8_e4m3fn overflows to NaN, float4_e2m1fn saturates: clamp first. */
  astype(dtype: DType): Tensor {
    return convert(this, dtype);
  }
  /**
   * The same bits read as another dtype. Narrower values lie along a new last dim, the low bits first (uint32[2] gives
   * uint8[2,4]); wider ones take up the last dim.
   */
  bitcast(dtype: DType): Tensor {
    return bitcast(this, dtype);
  }
  /** The same elements in row-major order; one size may be −1. @throws ShapeError */
  reshape(shape: Shape): Tensor {
    return shapes.reshape(this, shape);
  }
  /** Dim i of the result is dim `permutation[i]`; the default reverses the dims. */
  transpose(permutation?: readonly number[]): Tensor {
    return shapes.transpose(this, permutation ?? this.shape.map((_, i) => this.rank - 1 - i));
  }
  /** Repeated along dims of size 1 and new leading dims. @throws ShapeError */
  broadcastTo(shape: Shape): Tensor {
    return shapes.broadcastTo(this, shape);
  }
  /** Without a dim of size 1. @throws ShapeError */
  squeeze(dim: number): Tensor {
    return shapes.squeeze(this, dim);
  }
  /** With a new dim of size 1 at `dim`. */
  expandDims(dim: number): Tensor {
    return shapes.expandDims(this, dim);
  }
  /** With the order of elements along `dims` turned round. */
  reverse(dims: readonly number[]): Tensor {
    return shapes.reverse(this, dims);
  }
  /** Elements from `starts` up to `limits`, every `strides`-th. @throws ShapeError */
  slice(starts: readonly number[], limits: readonly number[], strides?: readonly number[]): Tensor {
    return shapes.slice(this, { starts, limits, strides: strides ?? starts.map(() => 1) });
  }
  /** `size` entries of one dim from `start`. */
  narrow(dim: number, start: number, size: number): Tensor {
    return shapes.narrow(this, dim, start, size);
  }
  /** One entry of a dim, which goes away; a negative index counts from the end. @throws ShapeError */
  at(dim: number, index: number): Tensor {
    return shapes.entryAt(this, dim, index);
  }

  // Reductions.
  /** Sum over `dims` (default all); of narrow floats taken in float32 and rounded once. */
  sum(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return reduceSum(this, dims, options);
  }
  /** Mean over `dims` (default all); of narrow floats taken in float32 and rounded once. */
  mean(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return reduceMean(this, dims, options);
  }
  /** Largest over `dims` (default all); NaN where one is. */
  maxOver(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return reduceMax(this, dims, options);
  }
  /** Smallest over `dims` (default all); NaN where one is. */
  minOver(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return reduceMin(this, dims, options);
  }
  /** Product over `dims` (default all); of narrow floats taken in float32 and rounded once. Integers wrap. */
  prod(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return reduceProduct(this, dims, options);
  }
  /** Of booleans, whether one over `dims` (default all) is true; of none false. @throws ShapeError */
  any(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return reduceAny(this, dims, options);
  }
  /** Of booleans, whether all over `dims` (default all) are true; of none true. @throws ShapeError */
  all(dims?: number | readonly number[], options?: ReduceOptions): Tensor {
    return reduceAll(this, dims, options);
  }
}

/** The second operand of arithmetic: a number takes the dtype of the first. */
export type Operand = Tensor | number;

/** Adds an operation to the graph and returns its outputs. @throws ShapeError */
export function apply<P>(op: Op<P>, inputs: readonly Tensor[], params: P): readonly Tensor[] {
  // Markers carry residuals too, among which plain values may be.
  if (op.alias === undefined) for (const x of inputs) checkTensor(op.name, x);
  const eqn: Eqn = { id: nextId++, op: op as AnyOp, params, inputs, outputs: [], scope: currentScope() };
  eqn.outputs = op.shape(inputs, params).map((spec) => new Tensor(spec, eqn));
  notePlace(eqn);
  return eqn.outputs;
}

function checkTensor(name: string, x: unknown): void {
  if (x instanceof Tensor) return;
  const got = typeof x === "object" && x !== null ? `a ${x.constructor?.name ?? "object"}` : typeof x;
  throw new ShapeError(`${name}: expected a Tensor, got ${got}; constant makes one of a host array, full of a number`);
}

/** `apply` for operations with one output. */
export function applyOne<P>(op: Op<P>, inputs: readonly Tensor[], params: P): Tensor {
  return apply(op, inputs, params)[0]!;
}

/** A free variable of a program: a tensor without an operation. */
export function parameter(spec: Spec): Tensor {
  return new Tensor({ shape: spec.shape, dtype: spec.dtype });
}

/** Both operands in one shape: numbers become constants, shapes broadcast. */
function pair(a: Tensor, b: Operand, name: string): [Tensor, Tensor] {
  if (typeof b === "number") return [a, full(a.shape, b, a.dtype)];
  if (!(b instanceof Tensor)) throw new ShapeError(`${name}: expected a Tensor or a number, got ${typeof b}`);
  if (a.dtype !== b.dtype) {
    throw new ShapeError(
      `${name}: dtypes differ, ${showSpec(a)} and ${showSpec(b)}; cast one of them, for example .astype("${a.dtype}")`,
    );
  }
  const shape = shapes.broadcastShapes(a, b, name);
  return [shapes.broadcastTo(a, shape), shapes.broadcastTo(b, shape)];
}
