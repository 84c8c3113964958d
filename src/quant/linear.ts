/**
 * The linear layer: y = x·Wᵀ with each of its three GEMMs computed as its precision says. The derivative is its own rule:
 * that of the unquantized layer, with the operands of each GEMM quantized again from their high-precision values.
 */
import { customVjp } from "../autodiff/index.ts";
import { ShapeError, UserError } from "../base/errors.ts";
import { checkpointName, type DType, inPass, namedScope, showSpec, type Tensor } from "../core/index.ts";
import type { Word } from "../core/random.ts";
import { type Prepared, product } from "./gemm.ts";
import {
  checkPrecision,
  type GemmName,
  gemmFormat,
  isStochasticOperand,
  type LinearPrecision,
  sameValues,
} from "./precision.ts";
import { dequantize } from "./quantize.ts";
import { type RandomKey, streamAt } from "./random.ts";
import { asTokens, quantizeOnce } from "./shared.ts";

/** Where a linear layer stands in the model, and how it computes there. */
export interface Site {
  /** "attn.q", "mlp.down": what policies and the keys of random draws go by. */
  readonly module: string;
  readonly layer: Word;
  readonly precision: LinearPrecision;
  /** Needed where the precision rounds stochastically. */
  readonly random?: RandomKey;
}

interface Residuals {
  /** [T, in], high precision. */
  readonly x: Tensor;
  /** [out, in], as given. */
  readonly w: Tensor;
  /** W as fprop used it, where dgrad uses the same values. */
  readonly weight?: Prepared;
}

const computeDTypes: ReadonlySet<DType> = new Set(["bfloat16", "float16", "float32"]);

/**
 * x [..., in] (bfloat16, float16 or float32, the compute dtype) times w [out, in] (float32 or the compute dtype): [..., out] in x's
 * dtype. dx has x's dtype, dw that of w; both products are summed in float32 and rounded once. Leading dims of x count as
 * tokens. Remat policies can keep "linear_input" and "quantization". @throws ShapeError, UserError
 */
export function linear(x: Tensor, w: Tensor, site: Site): Tensor {
  const inner = x.shape.at(-1);
  const dtypesFit = computeDTypes.has(x.dtype) && (w.dtype === "float32" || w.dtype === x.dtype);
  if (w.rank !== 2 || inner === undefined || inner !== w.shape[1] || !dtypesFit) {
    throw new ShapeError(
      `linear: x is ${showSpec(x)}, w is ${showSpec(w)}; x must be [..., in] in ${[...computeDTypes].join(" or ")}, w [out, in] in float32 or x's dtype`,
    );
  }
  checkPrecision(site.precision);
  const rule = customVjp<[Tensor, Tensor], Tensor, Residuals>({
    fwd: (x, w) => inPass("fprop", () => forward(x, w, site)),
    bwd: (residuals, dy) => reverse(residuals, dy, site),
  });
  return namedScope(site.module, () => rule(asTokens(x), w).reshape([...x.shape.slice(0, -1), w.shape[0]!]));
}

/** x [T, in], w [out, in] → y [T, out] */
function forward(x: Tensor, w: Tensor, site: Site): { out: Tensor; residuals: Residuals } {
  const { fprop, dgrad } = site.precision;
  const weight = prepare(w.astype(x.dtype), { site, gemm: "fprop", operand: "right", contracted: 1 });
  const shared = sameValues(fprop.right, dgrad.right);
  const kept = shared ? named(weight) : weight;
  const left = prepare(x, { site, gemm: "fprop", operand: "left", contracted: 1 });
  const out = multiply("fprop", site, () => product(left, kept, { contract: [1, 1], out: x.dtype }));
  return { out, residuals: { x, w, ...(shared && { weight: kept }) } };
}

/** The product of a GEMM, its operations marked with the operands' format. */
const multiply = (gemm: GemmName, { precision }: Site, f: () => Tensor): Tensor =>
  inPass(gemm, f, gemmFormat(precision[gemm]));

/** A quantized operand under the name by which remat policies keep it. */
function named({ values, factor, parts }: Prepared): Prepared {
  const keep = (x: Tensor) => checkpointName(x, "quantization");
  return {
    values: keep(values),
    ...(factor && { factor: keep(factor) }),
    ...(parts && { parts: { ...parts, scales: keep(parts.scales) } }),
  };
}

function reverse({ x, w, weight }: Residuals, dy: Tensor, site: Site): [Tensor, Tensor] {
  return [
    inPass("dgrad", () => inputGradient(dy, { w, weight, dtype: x.dtype, site })),
    inPass("wgrad", () => weightGradient(dy, x, w.dtype, site)),
  ];
}

interface InputGradient {
  readonly w: Tensor;
  readonly weight: Prepared | undefined;
  readonly dtype: DType;
  readonly site: Site;
}

/** dx [T, in] = dy [T, out] · W [out, in] */
function inputGradient(dy: Tensor, { w, weight, dtype, site }: InputGradient): Tensor {
  const left = prepare(dy, { site, gemm: "dgrad", operand: "left", contracted: 1 });
  const right = weight ?? prepare(w.astype(dtype), { site, gemm: "dgrad", operand: "right", contracted: 0 });
  return multiply("dgrad", site, () => product(left, right, { contract: [1, 0], out: dtype }));
}

/** dW [out, in] = dyᵀ [out, T] · x [T, in] */
function weightGradient(dy: Tensor, x: Tensor, dtype: DType, site: Site): Tensor {
  const left = prepare(dy, { site, gemm: "wgrad", operand: "left", contracted: 0 });
  const right = prepare(x, { site, gemm: "wgrad", operand: "right", contracted: 0 });
  return multiply("wgrad", site, () => product(left, right, { contract: [0, 0], out: dtype }));
}

interface OperandPlace {
  readonly site: Site;
  readonly gemm: GemmName;
  readonly operand: "left" | "right";
  /** The dim of the matrix that the GEMM sums over. */
  readonly contracted: 0 | 1;
}

/** A matrix as the given operand of a GEMM. */
function prepare(x: Tensor, place: OperandPlace): Prepared {
  const { site, gemm, operand, contracted } = place;
  const { rotation, [operand]: spec } = site.precision[gemm];
  if (spec.element === "plain") return { values: x };
  const axis = contracted === 1 ? "row" : "col";
  const stream = (of: "left" | "right" | "signs") => streamAt(randomOf(place), { ...site, gemm, operand: of });
  return inPass(`${gemm}.quantize`, () =>
    quantizeOnce(spec.source === "fprop" ? asFpropReads(x, place) : x, spec, {
      axis,
      ...(rotation !== "none" && { rotation, ...(rotation.signs === "fresh" && { signs: stream("signs") }) }),
      ...(isStochasticOperand(spec) && { draws: stream(operand) }),
    }),
  );
}

/** The value that fprop's copy of x or W decodes to, float32. */
function asFpropReads(x: Tensor, { site, gemm }: OperandPlace): Tensor {
  const spec = site.precision.fprop[gemm === "dgrad" ? "right" : "left"];
  if (spec.element === "plain") return x;
  const place: OperandPlace = { site, gemm: "fprop", operand: gemm === "dgrad" ? "right" : "left", contracted: 1 };
  const draws = isStochasticOperand(spec) && { draws: streamAt(randomOf(place), { ...site, ...place }) };
  return dequantize(quantizeOnce(x, spec, { axis: "row", ...draws }), spec);
}

function randomOf({ site: { module, random }, gemm, operand }: OperandPlace): RandomKey {
  if (random !== undefined) return random;
  throw new UserError(
    "E_RANDOM_KEY",
    `linear ${module}: the ${operand} operand of ${gemm} needs random numbers, so the site needs \`random\` (seed, step, microBatch)`,
  );
}
