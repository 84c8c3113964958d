/**
 * The linear layer: y = x·Wᵀ with each of its three GEMMs computed as its precision says. The derivative is its own rule:
 * that of the unquantized layer, with the operands of each GEMM quantized again from their high-precision values.
 */
import { customVjp } from "../autodiff/index.ts";
import { ShapeError } from "../base/errors.ts";
import { checkpointName, type DType, inPass, namedScope, showSpec, type Tensor } from "../core/index.ts";
import { checkPrecision } from "./checkPrecision.ts";
import { changesGradient, throughRounding } from "./estimators.ts";
import { type Prepared, product } from "./gemm.ts";
import { type LinearTaps, prepare, type Site } from "./operands.ts";
import { type PackedOperand, packOperand, unpackOperand } from "./packedOperand.ts";
import { contractedDim, drawsRandom, type GemmName, gemmFormat, sameValues } from "./precision.ts";
import { asTokens } from "./shared.ts";
import { stackTaps, tapsOf } from "./taps.ts";

interface Residuals {
  /** x [T, in] in high precision, or packed as wgrad reads it. */
  readonly x: Tensor | PackedOperand;
  /** Of x. */
  readonly dtype: DType;
  /** [out, in], as given. */
  readonly w: Tensor;
  /** W as fprop used it, where dgrad uses the same values. */
  readonly weight?: Prepared | PackedOperand;
  readonly taps: LinearTaps;
  /** Of x and W. */
  readonly seen: readonly LinearTaps[];
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
  const rule = customVjp<[Tensor, Tensor, LinearTaps], Tensor, Residuals>({
    fwd: (x, w, taps) => inPass("fprop", () => forward(x, w, { ...site, taps })),
    bwd: (residuals, dy) => reverse(residuals, dy, { ...site, taps: residuals.taps }),
  });
  const outShape = [...x.shape.slice(0, -1), w.shape[0]!];
  return namedScope(site.module, () => rule(asTokens(x), w, site.taps ?? {}).reshape(outShape));
}

/** x [T, in], w [out, in] → y [T, out] */
function forward(x: Tensor, w: Tensor, site: Site): { out: Tensor; residuals: Residuals } {
  const { fprop, dgrad } = site.precision;
  const weight = prepare(w.astype(x.dtype), { site, gemm: "fprop", operand: "right" });
  const isRotated = fprop.rotation !== "none" || dgrad.rotation !== "none";
  const shared = !isRotated && sameValues(fprop.right, dgrad.right);
  const kept = shared ? named(weight) : weight;
  const left = prepare(x, { site, gemm: "fprop", operand: "left" });
  const out = multiply("fprop", site, { left, right: kept, out: x.dtype });
  const { taps = {} } = site;
  const seen = [tapsOf("x", x, site), tapsOf("w", w.astype(x.dtype), site)];
  const common = { x, dtype: x.dtype, w, taps, seen };
  if (site.precision.residuals === "packed")
    return { out, residuals: { ...common, ...packed(x, shared ? weight : undefined, site) } };
  return { out, residuals: { ...common, ...(shared && { weight: kept }) } };
}

/** x, and W where fprop's copy is kept, as packed codes, as far as they can be packed and the backward pass reads nothing else of them. */
function packed(
  x: Tensor,
  weight: Prepared | undefined,
  site: Site,
): Pick<Residuals, "weight"> & { x?: PackedOperand } {
  const { fprop, wgrad } = site.precision;
  if (isForwardOnly(site)) return weight ? { weight } : {};
  const copy = changesGradient(site, "x") ? undefined : prepare(x, { site, gemm: "wgrad", operand: "right" });
  const packedX = copy && packOperand(copy, wgrad.right, { dim: contractedDim.wgrad.right });
  const packedW = weight && packOperand(weight, fprop.right, { dim: contractedDim.dgrad.right, name: "quantization" });
  const kept = packedW ?? weight;
  return { ...(packedX && { x: packedX }), ...(kept && { weight: kept }) };
}

/** Whether no derivative can follow, as in validation: it would draw random numbers, and there are none. */
const isForwardOnly = ({ precision, random }: Site): boolean => random === undefined && drawsRandom(precision);

const isPacked = (residual: object): residual is PackedOperand => "codes" in residual;

interface Factors {
  readonly left: Prepared;
  readonly right: Prepared;
  readonly out: DType;
}

/** The product of a GEMM, its operations marked with the operands' format. */
function multiply(gemm: GemmName, { precision }: Site, { left, right, out }: Factors): Tensor {
  const contract = [contractedDim[gemm].left, contractedDim[gemm].right] as const;
  return inPass(gemm, () => product(left, right, { contract, out }), gemmFormat(precision[gemm]));
}

/** A quantized operand under the name by which remat policies keep it. */
function named({ values, factor, parts }: Prepared): Prepared {
  const keep = (x: Tensor) => checkpointName(x, "quantization");
  return {
    values: keep(values),
    ...(factor && { factor: keep(factor) }),
    ...(parts && { parts: { ...parts, scales: keep(parts.scales) } }),
  };
}

function reverse(residuals: Residuals, dy: Tensor, site: Site): [Tensor, Tensor, LinearTaps] {
  return [
    inPass("dgrad", () => inputGradient(dy, residuals, site)),
    inPass("wgrad", () => weightGradient(dy, residuals, site)),
    stackTaps([...residuals.seen, tapsOf("dy", dy, site)]),
  ];
}

/** dx [T, in] = dy [T, out] · W [out, in] */
function inputGradient(dy: Tensor, { x, w, weight, dtype }: Residuals, site: Site): Tensor {
  const left = prepare(dy, { site, gemm: "dgrad", operand: "left" });
  const kept = weight && isPacked(weight) ? unpackOperand(weight, dy) : weight;
  const right = kept ?? prepare(w.astype(dtype), { site, gemm: "dgrad", operand: "right" });
  if (isPacked(x) || !changesGradient(site, "x")) return multiply("dgrad", site, { left, right, out: dtype });
  const gradient = multiply("dgrad", site, { left, right, out: "float32" });
  return throughRounding(gradient, x, site, "x").astype(dtype);
}

/** dW [out, in] = dyᵀ [out, T] · x [T, in] */
function weightGradient(dy: Tensor, { x, w, dtype }: Residuals, site: Site): Tensor {
  const left = prepare(dy, { site, gemm: "wgrad", operand: "left" });
  const right = isPacked(x) ? unpackOperand(x, dy) : prepare(x, { site, gemm: "wgrad", operand: "right" });
  if (!changesGradient(site, "w")) return multiply("wgrad", site, { left, right, out: w.dtype });
  const gradient = multiply("wgrad", site, { left, right, out: "float32" });
  return throughRounding(gradient, w.astype(dtype), site, "w").astype(w.dtype);
}
