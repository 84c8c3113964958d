/** The operands of a linear layer's GEMMs at their places: which scales, draws and rotations each gets. */
import { UserError } from "../base/errors.ts";
import { inPass, type Tensor } from "../core/index.ts";
import type { DrawStream, Word } from "../core/random.ts";
import type { Prepared } from "./gemm.ts";
import {
  contractedDim,
  type GemmName,
  isDelayed,
  isStochasticOperand,
  type LinearPrecision,
  linearTensors,
  type QuantizedOperand,
  type Side,
  tensorAt,
} from "./precision.ts";
import { dequantize, type Quantized } from "./quantize.ts";
import { type RandomKey, streamAt } from "./random.ts";
import { type RotationMatrix, rotationMatrix } from "./rotation.ts";
import { quantizeOnce } from "./shared.ts";

/** Where a linear layer stands in the model, and how it computes there. */
export interface Site {
  /** "attn.q", "mlp.down": what policies and the keys of random draws go by. */
  readonly module: string;
  readonly layer: Word;
  readonly precision: LinearPrecision;
  /** Needed where the precision rounds stochastically. */
  readonly random?: RandomKey;
  readonly taps?: LinearTaps;
}

/**
 * Arrays that a linear layer takes only so that their cotangents bring something out, of the backward pass too. Rows are
 * x, W and dy.
 */
export interface LinearTaps {
  /** float32 [3]: the scales in force of tensors whose scales are delayed. Cotangent: the largest magnitudes of this pass. */
  readonly scales?: Tensor;
  /** float32 [3, statisticNames.length], not read. Cotangent: the statistics of each tensor as it is quantized first. */
  readonly probe?: Tensor;
}

/** An operand of a GEMM of a layer. */
export interface OperandPlace {
  readonly site: Site;
  readonly gemm: GemmName;
  readonly operand: Side;
}

/** A matrix as the given operand of a GEMM. */
export function prepare(x: Tensor, place: OperandPlace): Prepared {
  const spec = place.site.precision[place.gemm][place.operand];
  return spec.element === "plain" ? { values: x } : quantizedAt(x, spec, place);
}

/** A matrix quantized as the given operand, which `spec` is. */
export function quantizedAt(x: Tensor, spec: QuantizedOperand, place: OperandPlace): Quantized {
  const { site, gemm, operand } = place;
  const { rotation } = site.precision[gemm];
  const axis = contractedDim[gemm][operand] === 1 ? "row" : "col";
  const signs = signsAt(place);
  return inPass(`${gemm}.quantize`, () =>
    quantizeOnce(spec.source === "fprop" ? asFpropReads(x, place) : x, spec, {
      axis,
      ...(rotation !== "none" && { rotation }),
      ...(signs && { signs }),
      ...(isStochasticOperand(spec) && { draws: streamAt(randomOf(place), { ...site, gemm, operand }) }),
      ...(isDelayed(spec) && { inForce: scaleInForce(place) }),
    }),
  );
}

/** Draws of the signs by which a GEMM rotates, where they are fresh. */
function signsAt(place: OperandPlace): DrawStream | undefined {
  const { site, gemm } = place;
  const { rotation } = site.precision[gemm];
  if (rotation === "none" || rotation.signs !== "fresh") return undefined;
  return streamAt(randomOf(place), { ...site, gemm: rotation.key === "layer" ? "layer" : gemm, operand: "signs" });
}

/** How a GEMM rotates its operands, if it does. */
export function rotationAt(place: OperandPlace): RotationMatrix | undefined {
  const { rotation } = place.site.precision[place.gemm];
  return rotation === "none" ? undefined : rotationMatrix(rotation, signsAt(place));
}

function scaleInForce({ site, gemm, operand }: OperandPlace): Tensor {
  if (site.taps?.scales) return site.taps.scales.at(0, linearTensors.indexOf(tensorAt[gemm][operand]));
  throw new UserError(
    "E_DELAYED_SCALE",
    `linear ${site.module}: the ${operand} operand of ${gemm} has a delayed scale, so the site needs \`taps.scales\`, the scales in force of x, W and dy`,
  );
}

/** The value that fprop's copy of x or W decodes to, float32; of a rotated fprop, in its rotated space. */
function asFpropReads(x: Tensor, { site, gemm }: OperandPlace): Tensor {
  const spec = site.precision.fprop[gemm === "dgrad" ? "right" : "left"];
  if (spec.element === "plain") return x;
  const place = { site, gemm: "fprop", operand: gemm === "dgrad" ? "right" : "left" } as const;
  return dequantize(quantizedAt(x, spec, place), spec);
}

function randomOf({ site: { module, random }, gemm, operand }: OperandPlace): RandomKey {
  if (random !== undefined) return random;
  throw new UserError(
    "E_RANDOM_KEY",
    `linear ${module}: the ${operand} operand of ${gemm} needs random numbers, so the site needs \`random\` (seed, step, microBatch)`,
  );
}
