/** Calls of Halfbyte's own CPU kernels (`native/`), for the parts of a program that are marked for one (`withKernel`). */
import { type Emitted, type Emitter, type Spec, sizeOf } from "../core/index.ts";
import { emitCall } from "../core/ops/customCall.ts";

/** What a kernel takes: the operands of the marked part. */
const kernels: Readonly<
  Record<string, { readonly target: string; readonly takes: (inputs: readonly Spec[]) => boolean }>
> = {
  "halfbyte.attention_forward": { target: "halfbyte_attention_forward", takes: takesAttention },
  "halfbyte.attention_backward": { target: "halfbyte_attention_backward", takes: takesAttention },
};

function takesAttention([q, k]: readonly Spec[]): boolean {
  const dim = q!.shape[3]!;
  const fits = (q!.dtype === "bfloat16" || q!.dtype === "float32") && dim % 16 === 0 && dim >= 16 && dim <= 256;
  return fits && sizeOf(q!.shape) > 0 && k!.dtype === q!.dtype;
}

/**
 * The part as a call of its kernel, or undefined where none is there or none takes it. On a mesh there is none: the partitioner
 * could not split the call. `instructions`: which of the library's instruction sets.
 */
export function nativeCall(
  e: Emitter,
  inputs: readonly Emitted[],
  { name, instructions }: { readonly name: string; readonly instructions: number },
  outputs: readonly Spec[],
): Emitted[] | undefined {
  const kernel = kernels[name];
  if (kernel === undefined || e.mesh !== undefined || !kernel.takes(inputs)) return undefined;
  return emitCall(e, inputs, { target: kernel.target, config: { instructions } }, outputs);
}
