/** Calls of Halfbyte's own CPU kernels (`native/`), for the parts of a program that are marked for one (`withKernel`). */
import { type Emitted, type Emitter, type Spec, sizeOf } from "../core/index.ts";
import type { Attributes } from "../core/ops/attributes.ts";
import { emitCall } from "../core/ops/customCall.ts";

/** Whether a kernel takes these operands and gives these results. */
type Takes = (inputs: readonly Spec[], outputs: readonly Spec[]) => boolean;

/** Kernels read vectors of this many elements. */
const unit = 16;

const isComputed = ({ dtype }: Spec): boolean => dtype === "bfloat16" || dtype === "float32";
const hasElements = ({ shape }: Spec): boolean => sizeOf(shape) > 0;

const takesAttention: Takes = ([q, k]) => {
  const dim = q!.shape[3]!;
  return isComputed(q!) && k!.dtype === q!.dtype && hasElements(q!) && dim % unit === 0 && dim <= 256;
};
const takesRows: Takes = ([x]) => isComputed(x!) && hasElements(x!) && x!.shape.at(-1)! % unit === 0;
const takesElements: Takes = ([x]) => isComputed(x!) && hasElements(x!) && sizeOf(x!.shape) % unit === 0;

/** By the name that a part is marked with, which is also the handler's. */
const kernels: Readonly<Record<string, Takes>> = {
  "halfbyte.attention_forward": takesAttention,
  "halfbyte.attention_backward": takesAttention,
  "halfbyte.softmax_loss": ([logits], [, gradient]) => hasElements(logits!) && isComputed(gradient!),
  "halfbyte.rms_norm_forward": takesRows,
  "halfbyte.rms_norm_backward": takesRows,
  "halfbyte.swiglu_forward": takesElements,
  "halfbyte.swiglu_backward": takesElements,
  "halfbyte.sum_of_squares": ([x]) => x!.dtype === "float32" && hasElements(x!),
};

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
  if (e.mesh !== undefined || !kernels[name]?.(inputs, outputs)) return undefined;
  return emitCall(e, inputs, { target: name.replace(".", "_"), config: { ...attributes, instructions } }, outputs);
}
