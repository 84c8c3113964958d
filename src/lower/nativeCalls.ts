/** Calls of Halfbyte's own CPU kernels (`native/`), for the parts of a program that are marked for one (`withKernel`). */
import { type Emitted, type Emitter, type Spec, sameShape, sizeOf } from "../core/index.ts";
import type { Attributes } from "../core/ops/attributes.ts";
import { emitCall } from "../core/ops/customCall.ts";

/** All operands and results of a call. */
interface Signature {
  readonly inputs: readonly Spec[];
  readonly outputs: readonly Spec[];
}

/**
 * The only signature that a kernel takes, as the call's first operands decide it, or undefined where it takes no such
 * operands. A kernel computes every address from them: a part that broadcasts anything else is for the plain lowering.
 */
type Expects = (inputs: readonly Spec[], outputs: readonly Spec[]) => Signature | undefined;

/** Kernels read vectors of this many elements. */
const unit = 16;

const isComputed = ({ dtype }: Spec): boolean => dtype === "bfloat16" || dtype === "float32";
const hasElements = ({ shape }: Spec): boolean => sizeOf(shape) > 0;

const float32 = (...shape: number[]): Spec => ({ shape, dtype: "float32" });

/** q [B, T, N, H]; k and v [B, T, K, H]; the log-sum-exp [B · K, T · N / K, 1]; starts of segments [B, T] */
function attention([q, k]: readonly Spec[]): { q: Spec; k: Spec; logSumExp: Spec; starts: Spec } | undefined {
  const [B, T, N, H] = q!.shape;
  const K = k!.shape[2]!;
  if (q!.shape.length !== 4 || k!.shape.length !== 4 || N! % K !== 0) return undefined;
  if (!isComputed(q!) || !hasElements(q!) || H! % unit !== 0 || H! > 256) return undefined;
  return {
    q: q!,
    k: { shape: [B!, T!, K, H!], dtype: q!.dtype },
    logSumExp: float32(B! * K, (T! * N!) / K, 1),
    starts: { shape: [B!, T!], dtype: "int32" },
  };
}

/** x [..., D] and a weight [D] */
function norm([x]: readonly Spec[]): { x: Spec; weight: Spec } | undefined {
  const width = x!.shape.at(-1);
  if (width === undefined || width % unit !== 0 || !isComputed(x!) || !hasElements(x!)) return undefined;
  return { x: x!, weight: float32(width) };
}

function elements([x]: readonly Spec[]): Spec | undefined {
  const { shape } = x!;
  return shape.length > 0 && isComputed(x!) && hasElements(x!) && sizeOf(shape) % unit === 0 ? x : undefined;
}

/** By the name that a part is marked with, which is also the handler's. */
const kernels: Readonly<Record<string, Expects>> = {
  "halfbyte.attention_forward": (given) => {
    const of = attention(given);
    return of && { inputs: [of.q, of.k, of.k], outputs: [of.q, of.logSumExp] };
  },
  "halfbyte.attention_backward": (given) => {
    const of = attention(given);
    return of && { inputs: [of.q, of.k, of.k, of.q, of.logSumExp, of.q], outputs: [of.q, of.k, of.k] };
  },
  "halfbyte.segment_attention_forward": (given) => {
    const of = attention(given);
    return of && { inputs: [of.q, of.k, of.k, of.starts], outputs: [of.q, of.logSumExp] };
  },
  "halfbyte.segment_attention_backward": (given) => {
    const of = attention(given);
    return of && { inputs: [of.q, of.k, of.k, of.q, of.logSumExp, of.q, of.starts], outputs: [of.q, of.k, of.k] };
  },
  "halfbyte.softmax_loss": ([logits], [, gradient]) => {
    const [rows, vocabulary] = logits!.shape;
    if (logits!.shape.length !== 2 || !hasElements(logits!) || !isComputed(gradient!)) return undefined;
    return {
      inputs: [float32(rows!, vocabulary!), { shape: [rows!], dtype: "int32" }, float32(rows!)],
      outputs: [float32(rows!), { shape: logits!.shape, dtype: gradient!.dtype }],
    };
  },
  "halfbyte.rms_norm_forward": (given) => {
    const of = norm(given);
    return of && { inputs: [of.x, of.weight], outputs: [of.x] };
  },
  "halfbyte.rms_norm_backward": (given) => {
    const of = norm(given);
    return of && { inputs: [of.x, of.weight, of.x], outputs: [of.x, of.weight] };
  },
  "halfbyte.swiglu_forward": (given) => {
    const x = elements(given);
    return x && { inputs: [x, x], outputs: [x] };
  },
  "halfbyte.swiglu_backward": (given) => {
    const x = elements(given);
    return x && { inputs: [x, x, x], outputs: [x, x] };
  },
  "halfbyte.sum_of_squares": ([x]) =>
    hasElements(x!)
      ? { inputs: [{ shape: x!.shape, dtype: "float32" }], outputs: [{ shape: [], dtype: "float64" }] }
      : undefined,
};

const allSame = (a: readonly Spec[], b: readonly Spec[]): boolean =>
  a.length === b.length && a.every(({ shape, dtype }, i) => dtype === b[i]!.dtype && sameShape(shape, b[i]!.shape));

/** Whether the kernel of this name takes exactly these operands and gives these results. */
export function kernelTakes(name: string, inputs: readonly Spec[], outputs: readonly Spec[]): boolean {
  const expected = kernels[name]?.(inputs, outputs);
  return expected !== undefined && allSame(expected.inputs, inputs) && allSame(expected.outputs, outputs);
}

/** A marked part, and which of the library's instruction sets its kernel is to use. */
export interface NativeCall {
  readonly name: string;
  readonly attributes: Attributes;
  readonly instructions: number;
}

/**
 * The part as a call of its kernel, or undefined where none is there or none takes it. On a mesh there is none: the partitioner
 * could not split the call.
 */
export function nativeCall(
  e: Emitter,
  inputs: readonly Emitted[],
  { name, attributes, instructions }: NativeCall,
  outputs: readonly Spec[],
): Emitted[] | undefined {
  if (e.mesh !== undefined || !kernelTakes(name, inputs, outputs)) return undefined;
  return emitCall(e, inputs, { target: name.replace(".", "_"), config: { ...attributes, instructions } }, outputs);
}
