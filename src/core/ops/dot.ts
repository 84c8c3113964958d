/**
 * The contraction: batch dims, free dims of the left, free dims of the right. Products are exact, sums are float32, and
 * the result is rounded once to `out`. Emitted with a float32 result and a convert, since XLA's CPU backend has
 * only slow kernels for some bfloat16-output dots.
 */
import { ShapeError } from "../../base/errors.ts";
import { type DType, dtypeInfo } from "../dtype.ts";
import { type Spec, showSpec, sizeOf } from "../hostArray.ts";
import type { Emitted, Emitter, Op } from "../op.ts";
import { applyOne, type Tensor } from "../tensor.ts";
import { allocate, offsets, rounder, stridesOf, type Values } from "../values.ts";
import { checkDims, checkSpec } from "./shape.ts";

/** Which dims are summed over, which stay apart, and the result's dtype. */
export interface DotParams {
  /** Dims summed over: of a, of b. */
  readonly contract: readonly [readonly number[], readonly number[]];
  /** Dims of both that stay apart. */
  readonly batch: readonly [readonly number[], readonly number[]];
  readonly out: DType;
}

/** Dims of operand `side` that are neither contracted nor batch dims. */
export function freeDims(x: Spec, { contract, batch }: DotParams, side: 0 | 1): number[] {
  return x.shape.map((_, i) => i).filter((i) => !contract[side].includes(i) && !batch[side].includes(i));
}

/** The dtype sums are taken in. */
const accumulator = (dtype: DType): DType =>
  dtypeInfo(dtype).kind !== "float" ? "int32" : dtype === "float64" ? "float64" : "float32";

export const dotOp: Op<DotParams> = {
  name: "dot",
  shape: ([a, b], params) => {
    const { contract, batch, out } = params;
    const bad = (rule: string) => new ShapeError(`dot: ${showSpec(a!)} × ${showSpec(b!)}: ${rule}`);
    if (a!.dtype !== b!.dtype) throw bad("dtypes differ; cast one operand");
    const { kind, bits } = dtypeInfo(a!.dtype);
    if (kind === "bool" || bits < 8 || (kind !== "float" && bits === 64))
      throw bad("cast the operands first, for example to bfloat16");
    if (dtypeInfo(out).kind !== dtypeInfo(accumulator(a!.dtype)).kind) throw bad(`cannot give ${out}`);
    for (const [what, pairs] of [
      ["contracting", contract],
      ["batch", batch],
    ] as const) {
      pairs[0].forEach((dim, i) => {
        const [m, n] = [a!.shape[dim], b!.shape[pairs[1][i]!]];
        if (m === undefined || m !== n)
          throw bad(`${what} dims ${dim} and ${pairs[1][i]} have sizes ${m} and ${n}; they must be equal`);
      });
      if (pairs[0].length !== pairs[1].length) throw bad(`as many ${what} dims are needed on both sides`);
    }
    const take = (x: Spec, dims: readonly number[]) => dims.map((i) => x.shape[i]!);
    return [
      {
        shape: [...take(a!, batch[0]), ...take(a!, freeDims(a!, params, 0)), ...take(b!, freeDims(b!, params, 1))],
        dtype: out,
      },
    ];
  },
  // The cotangent is cast to the operands' dtype, so the reverse contractions run at the precision of this one.
  vjp: ({ inputs: [a, b], params, cts: [ct], needs }) => {
    const grad = ct!.astype(a!.dtype);
    return [
      needs[0] ? cotangentOf(0, grad, a!, b!, params) : undefined,
      needs[1] ? cotangentOf(1, grad, b!, a!, params) : undefined,
    ];
  },
  lower: (e, [a, b], params, [out]) => [emitDot(e, a!, b!, params, out!)],
  interpret: ([a, b], params, [out]) => [interpretDot(a!, b!, params, out!)],
  show: ({ contract, batch }) =>
    `contract=${contract[0]}×${contract[1]}${batch[0].length ? ` batch=${batch[0]}×${batch[1]}` : ""}`,
};

/**
 * Cotangent of operand `side` (`own`): the result's cotangent contracted with the other operand over the other's free
 * dims. The factor whose remaining dims come first in `own` goes left, so that a plain matrix needs no transpose.
 */
function cotangentOf(side: 0 | 1, ct: Tensor, own: Tensor, other: Tensor, params: DotParams): Tensor {
  const { contract, batch } = params;
  const rest = side === 0 ? 1 : 0;
  const numBatch = batch[0].length;
  const [ownFree, otherFree] = [freeDims(own, params, side), freeDims(other, params, rest)];
  const ctBatch = batch[0].map((_, i) => i);
  const ctOther = otherFree.map((_, i) => numBatch + (side === 0 ? ownFree.length + i : i));
  const contracted = contract[rest].map((dim, i) => ({ dim, own: contract[side][i]! })).sort((x, y) => x.dim - y.dim);
  const contractedOwn = contracted.map((c) => c.own);
  const otherFirst = (contractedOwn[0] ?? 0) < (ownFree[0] ?? 0);
  const product = otherFirst
    ? dot(other, ct, { contract: [otherFree, ctOther], batch: [batch[rest], ctBatch], out: own.dtype })
    : dot(ct, other, { contract: [ctOther, otherFree], batch: [ctBatch, batch[rest]], out: own.dtype });
  const order = [...batch[side], ...(otherFirst ? [...contractedOwn, ...ownFree] : [...ownFree, ...contractedOwn])];
  return product.transpose(own.shape.map((_, dim) => order.indexOf(dim)));
}

/** The common form; `lower/cpu` has faster ones for the shapes that matter. */
export function emitDot(e: Emitter, a: Emitted, b: Emitted, { contract, batch }: DotParams, out: Spec): Emitted {
  const list = (dims: readonly number[]) => `[${dims.join(", ")}]`;
  const dims = [
    `lhs_batching_dimensions = ${list(batch[0])}`,
    `rhs_batching_dimensions = ${list(batch[1])}`,
    `lhs_contracting_dimensions = ${list(contract[0])}`,
    `rhs_contracting_dimensions = ${list(contract[1])}`,
  ];
  const sum: Spec = { shape: out.shape, dtype: accumulator(a.dtype) };
  const [result] = e.op("stablehlo.dot_general", [a, b], [sum], {
    dot_dimension_numbers: `#stablehlo.dot<${dims.join(", ")}>`,
    precision_config: "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]",
  });
  return sum.dtype === out.dtype ? result! : e.op("stablehlo.convert", [result!], [out])[0]!;
}

function interpretDot(a: Values, b: Values, params: DotParams, out: Spec): Values {
  const at = (x: Values, dims: readonly number[]) => {
    const strides = stridesOf(x.shape);
    return offsets(
      dims.map((i) => x.shape[i]!),
      dims.map((i) => strides[i]!),
    );
  };
  const { contract, batch } = params;
  const [batchA, freeA, innerA] = [at(a, batch[0]), at(a, freeDims(a, params, 0)), at(a, contract[0])];
  const [batchB, freeB, innerB] = [at(b, batch[1]), at(b, freeDims(b, params, 1)), at(b, contract[1])];
  const data = allocate(out.dtype, sizeOf(out.shape));
  const round = rounder(out.dtype);
  const integer = dtypeInfo(a.dtype).kind !== "float"; // sums of integers wrap at 32 bits
  let k = 0;
  for (let g = 0; g < batchA.length; g++) {
    for (let i = 0; i < freeA.length; i++) {
      const baseA = batchA[g]! + freeA[i]!;
      for (let j = 0; j < freeB.length; j++) {
        const baseB = batchB[g]! + freeB[j]!;
        let sum = 0;
        for (let c = 0; c < innerA.length; c++) {
          const [x, y] = [a.data[baseA + innerA[c]!]!, b.data[baseB + innerB[c]!]!];
          sum = integer ? (sum + Math.imul(x, y)) | 0 : sum + x * y;
        }
        data[k++] = round(sum);
      }
    }
  }
  return { shape: out.shape, dtype: out.dtype, data };
}

/** Which dims are summed over, which stay apart, and the result's dtype. */
export type DotOptions = Partial<DotParams>;

/**
 * Contraction of a and b; result dims are batch, a's free, b's free, in their operands' order. Without `contract` it is
 * the matrix product: the last dim of a with the last but one (or only) dim of b. Without `out`, a's dtype.
 * @throws ShapeError
 */
export function dot(a: Tensor, b: Tensor, { contract, batch = [[], []], out }: DotOptions = {}): Tensor {
  checkSpec("dot", a);
  checkSpec("dot", b);
  const [ofA, ofB] = contract ?? [[a.rank - 1], [Math.max(0, b.rank - 2)]];
  const [dimsA, dimsB] = [checkDims("dot", a, [...batch[0], ...ofA]), checkDims("dot", b, [...batch[1], ...ofB])];
  const [countA, countB] = [batch[0].length, batch[1].length];
  return applyOne(dotOp, [a, b], {
    contract: [dimsA.slice(countA), dimsB.slice(countB)],
    batch: [dimsA.slice(0, countA), dimsB.slice(0, countB)],
    out: out ?? accumulatesTo(a.dtype),
  });
}

const accumulatesTo = (dtype: DType): DType =>
  dtypeInfo(dtype).kind !== "float" ? "int32" : dtypeInfo(dtype).bits < 16 ? "float32" : dtype;
