/** Every operand of every recipe as its GEMM reads it, for tests that hold for all of them: a new recipe's join by its name. */
import { full, type HostArray, type Tensor } from "../../src/core/index.ts";
import {
  dequantize,
  fp8BlockScaling,
  fp8CurrentScaling,
  type GemmName,
  gemmNames,
  type LinearPrecision,
  mxfp4,
  mxfp8,
  nvfp4,
  type QuantizedOperand,
  type QuantizeOptions,
  quantize,
  type Rotation,
  recipeByName,
  recipeNames,
  rotationMatrix,
  streamAt,
} from "../../src/quant/index.ts";
import { isSymmetric } from "../../src/quant/precision.ts";
import { compiledFunction, interpreted } from "./bothWays.ts";

/** The recipes by name, and their switches. */
const named: readonly (readonly [string, LinearPrecision])[] = [
  ...recipeNames.map((name) => [name, recipeByName(name).precision] as const),
  ["nvfp4 without rotation", nvfp4({ rht: false })],
  ["nvfp4 without stochastic rounding", nvfp4({ stochasticRounding: false })],
  ["nvfp4 with 1-D weight scales", nvfp4({ weightScaling: "1d" })],
  ["nvfp4 with gain 17/16", nvfp4({ gain: 17 / 16 })],
  ["nvfp4 with a scale a row", nvfp4({ rowScaledActivation: true })],
  ["nvfp4, four over six", nvfp4({ fourOverSix: "all", stochasticRounding: false, rht: false })],
  [
    "nvfp4, four over six by squares",
    nvfp4({ fourOverSix: "all", fourOverSixError: "mse", stochasticRounding: false }),
  ],
  ["mxfp4 by OCP's rule", mxfp4({ round: "floor", rht: false })],
  ["mxfp4 with 1-D weight scales", mxfp4({ weightScaling: "1d", stochasticRounding: false })],
  ["mxfp8 by OCP's rule, hybrid", mxfp8({ round: "floor", hybrid: true })],
  ["fp8_current_scaling by powers of two", fp8CurrentScaling({ powerOfTwo: true })],
  ["fp8_block_scaling by float32 scales, hybrid", fp8BlockScaling({ powerOfTwo: false, hybrid: true })],
];

/** Precisions that differ, each under the first of its names. */
export const precisions: readonly (readonly [string, LinearPrecision])[] = [
  ...new Map(named.map((entry) => [JSON.stringify(entry[1]), entry] as const).reverse()).values(),
].reverse();

export interface OperandCase {
  readonly label: string;
  readonly operand: QuantizedOperand;
  readonly axis: QuantizeOptions["axis"];
  readonly rotation?: Rotation;
}

const axes = {
  fprop: { left: "row", right: "row" },
  dgrad: { left: "row", right: "col" },
  wgrad: { left: "col", right: "col" },
} as const satisfies Record<GemmName, Record<"left" | "right", QuantizeOptions["axis"]>>;

function* allOperands(): Generator<OperandCase> {
  for (const [name, precision] of precisions) {
    for (const gemm of gemmNames) {
      const { rotation } = precision[gemm];
      for (const side of ["left", "right"] as const) {
        const operand = precision[gemm][side];
        if (operand.element === "plain") continue;
        // A symmetric block is the same read either way, as `linear` has it.
        const axis = rotation === "none" && isSymmetric(operand.block) ? "row" : axes[gemm][side];
        yield { label: `${name}, ${gemm} ${side}`, operand, axis, ...(rotation !== "none" && { rotation }) };
      }
    }
  }
  const rows = { element: "e2m1", block: "1x16", scale: { type: "e4m3", outer: "tensor" } } as const;
  yield { label: "NVFP4 by 8 random bits", operand: { ...rows, rounding: "stochastic8" }, axis: "row" };
  const delayed = { type: "delayed", historyLength: 16, algorithm: "max", margin: 0 } as const;
  yield {
    label: "FP8 under a delayed scale",
    operand: { element: "e5m2", block: "tensor", rounding: "nearest", scale: delayed },
    axis: "row",
  };
  yield { label: "INT4 under E4M3 scales", operand: { ...rows, element: "int4", rounding: "nearest" }, axis: "row" };
}

/** The operands of all recipes and switches, each once. */
export const operands: readonly OperandCase[] = [
  ...new Map(
    [...allOperands()].map((one) => [JSON.stringify([one.operand, one.axis, one.rotation]), one] as const).reverse(),
  ).values(),
].reverse();

const random = { seed: 1, step: 2, microBatch: 3 };
const place = { module: "mlp.up", layer: 2, gemm: "dgrad" } as const;

/** What a quantizer gives that holds bit for bit in both evaluators. */
export const exactParts = ["values", "elements", "scales", "factor"] as const;
/** And what decoders and products make of it; the order of their multiplications may differ. */
const parts = [...exactParts, "seen", "decoded", "unit"] as const;
export type Parts = Record<(typeof parts)[number], HostArray>;

/**
 * The quantizer as a function to evaluate. `decoded`: x̂; `unit`: what an element of 1 decodes to at each place; `seen`: x̂ as
 * products see it, NaN where they see NaN.
 */
function quantizer({ operand, axis, rotation }: OperandCase) {
  return (x: Tensor): Tensor[] => {
    const quantized = quantize(x, operand, {
      axis,
      ...(operand.scale.type === "delayed" && { inForce: full([], 3.7, "float32") }),
      draws: streamAt(random, { ...place, operand: "left" }),
      ...(rotation && { rotation: rotationMatrix(rotation, streamAt(random, { ...place, operand: "signs" })) }),
    });
    const { values, elements, scales, factor, parts } = quantized;
    const decoded = dequantize(quantized, operand);
    const unit = dequantize({ ...quantized, elements: elements.mul(0).add(1) }, operand);
    const spread = factor?.rank === 1 && axis === "row" ? factor.reshape([-1, 1]) : factor;
    const wide = values.astype("float32");
    // Under scales of 128 elements parts are what decodes; of blocks they are the scales as products see them.
    const ofParts =
      parts && (operand.scale.type === "e4m3" ? decoded : dequantize({ ...quantized, scales: parts.scales }, operand));
    const seen = ofParts ?? (spread ? wide.mul(spread) : wide);
    return [values, elements, scales, factor ?? parts?.scales ?? scales, seen, decoded, unit];
  };
}

const partsOf = (leaves: readonly HostArray[]): Parts =>
  Object.fromEntries(parts.map((name, i) => [name, leaves[i]!])) as Parts;

/** All but the last two parts, compiled. */
export function compiledQuantizer(one: OperandCase): (x: HostArray) => Promise<Omit<Parts, "decoded" | "unit">> {
  const compiled = compiledFunction((x: Tensor) => quantizer(one)(x).slice(0, -2));
  return async (x) => partsOf(await compiled(x));
}

/** All parts by the interpreter. */
export function quantized(one: OperandCase, x: HostArray): Parts {
  return partsOf(interpreted(quantizer(one), x));
}
