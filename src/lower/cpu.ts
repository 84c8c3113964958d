/**
 * XLA's CPU backend: contractions as calls of the oneDNN matmul that the plugin contains. It takes bfloat16 or float32
 * operands with either transposed, sums in float32 and rounds once in its epilogue, and reaches the machine's matrix rate
 * where the plain forms do not (docs/performance.md). The call is not a documented interface: `pjrt` probes it before this table is
 * used. Without it, and where XLA's partitioner splits the program, contractions stay dots, in the form whose kernel is
 * fast: bfloat16 operands, float32 result, the left operand contracted along its last dim.
 */
import { compositeOp } from "../autodiff/composite.ts";
import { type Emitted, type Emitter, type Spec, sizeOf } from "../core/index.ts";
import { type DotParams, dotOp, emitDot, freeDims } from "../core/ops/dot.ts";
import { i64s } from "../core/ops/shape.ts";
import { type NativeCall, nativeCall } from "./nativeCalls.ts";
import type { LoweringTable } from "./stablehlo.ts";

export interface CpuCalls {
  /** For operands of which dtype the plugin's oneDNN call is there and right. */
  readonly oneDnn: { readonly bfloat16: boolean; readonly float32: boolean };
  /** Instructions of the native kernels; undefined: there are none. */
  readonly nativeInstructions?: number | undefined;
}

/** The CPU's table. */
export function cpuLowering({ oneDnn, nativeInstructions: instructions }: CpuCalls): LoweringTable {
  const native: LoweringTable = new Map([
    [
      compositeOp,
      (e, inputs, { name, attributes }: Omit<NativeCall, "instructions">, outputs) =>
        instructions === undefined ? undefined : nativeCall(e, inputs, { name, attributes, instructions }, outputs),
    ],
  ]);
  return new Map([
    ...native,
    [
      dotOp,
      (e, [a, b], params, [out]) =>
        // The partitioner can't split a library call: it would gather both operands on every device.
        (e.partitioned ? undefined : matmulCall(e, oneDnn, { a: a!, b: b! }, params, out!)) ??
        rowMajorDot(e, a!, b!, params, out!),
    ],
  ]);
}

/** An operand as batches of a matrix, rows first; "transposed" where its contracted dims come before its free dims. */
interface Matrix {
  readonly batch: number;
  readonly free: number;
  readonly inner: number;
  readonly transposed: boolean;
}

/** Undefined where the dims do not lie as batch, then free and contracted dims in one order or the other. */
function asMatrix(x: Spec, params: DotParams, side: 0 | 1): Matrix | undefined {
  const [batch, contract, free] = [params.batch[side], params.contract[side], freeDims(x, params, side)];
  const inOrder = (dims: readonly number[]) => dims.every((dim, i) => dim === i);
  const size = (dims: readonly number[]) => sizeOf(dims.map((dim) => x.shape[dim]!));
  const sizes = { batch: size(batch), free: size(free), inner: size(contract) };
  if (inOrder([...batch, ...free, ...contract])) return { ...sizes, transposed: false };
  if (inOrder([...batch, ...contract, ...free])) return { ...sizes, transposed: true };
  return undefined;
}

/**
 * Multiply-adds from which float32 operands are worth a call: it is at most 1.2 times as fast as a dot of rows, and keeps
 * the program out of the cache of compiled ones.
 */
const float32CallSize = 2 ** 24;

interface Operands {
  readonly a: Emitted;
  readonly b: Emitted;
}

/** Declines (undefined) what the call cannot do or does no better. */
function matmulCall(
  e: Emitter,
  there: CpuCalls["oneDnn"],
  { a, b }: Operands,
  params: DotParams,
  out: Spec,
): Emitted[] | undefined {
  const [left, right] = [asMatrix(a, params, 0), asMatrix(b, params, 1)];
  if (left === undefined || right === undefined) return undefined;
  const { batch, inner } = left;
  const [m, n] = [left.free, right.free];
  const fits =
    a.dtype === "bfloat16"
      ? there.bfloat16 && (out.dtype === "bfloat16" || out.dtype === "float32")
      : a.dtype === "float32" && there.float32 && out.dtype === "float32" && batch * m * n * inner >= float32CallSize;
  if (!fits) return undefined;
  // Vectors and empty operands stay with the common form.
  if (m < 2 || n < 2 || inner < 2 || batch < 1) return undefined;
  const lead = batch > 1 ? [batch] : [];
  const shapeA = [...lead, ...(left.transposed ? [inner, m] : [m, inner])];
  const shapeB = [...lead, ...(right.transposed ? [inner, n] : [n, inner])];
  const flags = [
    left.transposed ? "\\22transpose_a\\22: true" : "",
    right.transposed ? "" : "\\22transpose_b\\22: true",
  ];
  const order = shapeA.map((_, i) => shapeA.length - 1 - i);
  const layout = `dense<[${order.join(", ")}]> : tensor<${order.length}xindex>`;
  const [product] = e.op(
    "stablehlo.custom_call",
    [reshaped(e, a, shapeA), reshaped(e, b, shapeB)],
    [{ shape: [...lead, m, n], dtype: out.dtype }],
    {
      call_target_name: '"__onednn$matmul"',
      api_version: "2 : i32",
      backend_config: `"{\\22onednn_matmul_config\\22: {${flags.filter((f) => f !== "").join(", ")}}}"`,
      operand_layouts: `[${layout}, ${layout}]`,
      result_layouts: `[${layout}]`,
    },
  );
  return [reshaped(e, product!, out.shape)];
}

function reshaped(e: Emitter, x: Emitted, shape: readonly number[]): Emitted {
  const same = x.shape.length === shape.length && x.shape.every((n, i) => n === shape[i]);
  return same ? x : e.op("stablehlo.reshape", [x], [{ shape, dtype: x.dtype }])[0]!;
}

/** Rows that are moved together; XLA undoes a plain transpose by contracting the first dim after all. */
const tile = 16;

/**
 * A contraction of the left operand's first dim as one of its last, after moving tiles of 16 rows: twice as fast, for
 * weight gradients and those of attention. How a dim is split over devices survives where tiles divide each part.
 */
function rowMajorDot(e: Emitter, a: Emitted, b: Emitted, params: DotParams, out: Spec): Emitted[] | undefined {
  const [left, contract] = [asMatrix(a, params, 0), params.contract];
  if (a.dtype !== "bfloat16" || !left?.transposed || contract[0].length !== 1) return undefined;
  const { inner, free } = left;
  if (inner % tile !== 0 || free < tile || sizeOf(freeDims(b, params, 1).map((dim) => b.shape[dim]!)) < tile)
    return undefined;
  const at = contract[0][0]!;
  const [lead, rest] = [a.shape.slice(0, at), a.shape.slice(at + 1)];
  const tiled = reshaped(e, a, [...lead, inner / tile, tile, ...rest]);
  const order = [...lead.keys(), ...[...rest.keys()].map((i) => at + 2 + i), at, at + 1];
  const [moved] = e.op(
    "stablehlo.transpose",
    [tiled],
    [{ shape: order.map((dim) => tiled.shape[dim]!), dtype: a.dtype }],
    { permutation: i64s(order) },
  );
  const rows = reshaped(e, moved!, [...lead, ...rest, inner]);
  return [emitDot(e, rows, b, { ...params, contract: [[rows.shape.length - 1], contract[1]] }, out)];
}
