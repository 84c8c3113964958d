/** Calls of code that the plugin, or a library registered with it, brings along. */
import { ShapeError, UserError } from "../../base/errors.ts";
import { dtypeInfo } from "../dtype.ts";
import { type HostArray, type Spec, sameShape, showSpec } from "../hostArray.ts";
import type { Emitted, Emitter, Op, VjpArguments } from "../op.ts";
import { apply, type Tensor } from "../tensor.ts";
import { toHostArray, toValues } from "../values.ts";
import { type Attributes, checkAttributes, mlirDictionary, mlirString } from "./attributes.ts";
import { checkList, checkShape } from "./shape.ts";

/** What a call of the plugin's own functions needs beside its operands. */
export interface CustomCallOptions {
  /**
   * What the target is told: attributes (whole numbers as 64-bit integers, others as float64) for one registered as a typed
   * FFI handler, a string for one of the older interface.
   */
  readonly config?: Attributes | string;
  /** The same computation in TypeScript, on row-major arrays of the inputs' shapes. It must not change its inputs. */
  readonly interpret: (inputs: readonly HostArray[]) => readonly HostArray[];
  /** Cotangents of the inputs (undefined: zero) from those of the outputs. Without it the call has no derivative. */
  readonly vjp?: (
    args: Pick<VjpArguments<null>, "inputs" | "outputs" | "cts" | "needs">,
  ) => readonly (Tensor | undefined)[];
}

interface CustomCallParams extends CustomCallOptions {
  readonly target: string;
  readonly outputs: readonly Spec[];
}

const customCallOp: Op<CustomCallParams> = {
  name: "custom_call",
  shape: (_, { outputs }) => outputs,
  vjp: ({ params: { target, vjp }, inputs, outputs, cts, needs }) => {
    if (vjp === undefined) {
      throw new ShapeError(`customCall ${target}: it has no vjp; give one, or keep derivatives out with stopGradient`);
    }
    const found = vjp({ inputs, outputs, cts, needs });
    inputs.forEach((x, i) => {
      const ct = found[i];
      if (ct === undefined || (ct.dtype === x.dtype && sameShape(ct.shape, x.shape))) return;
      throw new ShapeError(
        `customCall ${target}: the cotangent of input ${i} must be ${showSpec(x)}; got ${showSpec(ct)}`,
      );
    });
    return found;
  },
  lower: (e, inputs, params, outputs) => emitCall(e, inputs, params, outputs),
  interpret: (inputs, { target, interpret }, outputs) => {
    const results = interpret(inputs.map(toHostArray));
    const fits = results.length === outputs.length && results.every((x, i) => showSpec(x) === showSpec(outputs[i]!));
    if (fits) return results.map(toValues);
    const list = (specs: readonly Spec[]) => specs.map(showSpec).join(", ");
    throw new UserError(
      "E_CUSTOM_CALL",
      `customCall ${target}: interpret must give ${list(outputs)}; it gave ${list(results)}`,
    );
  },
  show: ({ target, config }) =>
    config === undefined ? target : `${target} ${typeof config === "string" ? config : mlirDictionary(config)}`,
};

/** A call of `target` with dense row-major arrays. */
export function emitCall(
  e: Emitter,
  inputs: readonly Emitted[],
  { target, config }: Pick<CustomCallParams, "target" | "config">,
  outputs: readonly Spec[],
): Emitted[] {
  return e.op("stablehlo.custom_call", inputs, outputs, {
    call_target_name: mlirString(target),
    api_version: typeof config === "object" ? "4 : i32" : "2 : i32",
    ...(config !== undefined && {
      backend_config: typeof config === "string" ? mlirString(config) : mlirDictionary(config),
    }),
    operand_layouts: rowMajor(inputs),
    result_layouts: rowMajor(outputs),
  });
}

function rowMajor(arrays: readonly Spec[]): string {
  const layouts = arrays.map(({ shape: { length } }) => {
    const order = Array.from({ length }, (_, i) => length - 1 - i);
    return `dense<[${order.join(", ")}]> : tensor<${length}xindex>`;
  });
  return `[${layouts.join(", ")}]`;
}

/**
 * The outputs of the plugin's function `target`, which gets the inputs as dense row-major arrays. It must be pure: calls
 * whose results nobody reads are left out, equal ones may be made once. @throws ShapeError
 */
export function customCall(
  target: string,
  inputs: readonly Tensor[],
  outputs: readonly Spec[],
  options: CustomCallOptions,
): readonly Tensor[] {
  if (typeof options?.interpret !== "function")
    throw new ShapeError(`customCall ${target}: needs \`interpret\`, the same computation in TypeScript`);
  checkList("customCall", inputs);
  if (typeof options.config === "object") checkAttributes(`customCall ${target}`, options.config);
  const specs = outputs.map(({ shape, dtype }): Spec => {
    checkShape(`customCall ${target}`, shape);
    dtypeInfo(dtype);
    return { shape, dtype };
  });
  return apply(customCallOp, inputs, { ...options, target, outputs: specs });
}
