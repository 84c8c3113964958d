/** What every linear layer executes, layer by layer and GEMM by GEMM, as rows and as text. */
import { isBiased } from "./checkPrecision.ts";
import type { PrecisionPlan } from "./policy.ts";
import {
  blockLength,
  type GemmName,
  type GemmSpec,
  gemmFormat,
  gemmNames,
  isQuantizedGemm,
  isSymmetric,
  type OperandSpec,
  type QuantizedOperand,
  type Rotation,
} from "./precision.ts";

/** A linear layer of every block: w is [outDim, inDim]. */
export interface LinearShape {
  readonly module: string;
  readonly outDim: number;
  readonly inDim: number;
}

export interface TableOptions {
  readonly modules: readonly LinearShape[];
  /** Rows of x: batch × sequence length of a micro-batch. */
  readonly tokens: number;
  /** The compute dtype, which plain operands have. */
  readonly dtype: ComputeDType;
}

export type ComputeDType = keyof typeof plainNames;

/** What an operand is called that is not quantized. */
const plainNames = { bfloat16: "bf16", float16: "fp16", float32: "fp32" } as const;

export interface PrecisionRow {
  /** The block, or the first and last of a run of blocks that compute alike. */
  readonly firstLayer: number;
  readonly lastLayer: number;
  readonly module: string;
  readonly gemm: GemmName;
  /** "e2m1 1x16 stochastic (biased) × e2m1 1x16, rotated". */
  readonly format: string;
  /** Emulated: exact products of the quantized values in BF16, summed in FP32. */
  readonly runs: "native" | "emulated";
  /** "tokens 100→112", or empty where nothing is padded. */
  readonly padding: string;
  /** Why it computes otherwise than the recipe says, or empty. */
  readonly reason: string;
}

/** Rows in the order of layers, modules and GEMMs; runs of blocks that are alike make one row. */
export function precisionTable(plan: PrecisionPlan, options: TableOptions): PrecisionRow[] {
  const { modules, tokens, dtype } = options;
  const rowsOf = (layer: number): PrecisionRow[] =>
    modules.flatMap((shape) => {
      const precision = plan.precision(shape.module, layer);
      return gemmNames.map((gemm) => ({
        firstLayer: layer,
        lastLayer: layer,
        module: shape.module,
        gemm,
        format: describeGemm(precision[gemm], dtype),
        runs: isQuantizedGemm(precision[gemm]) ? ("emulated" as const) : ("native" as const),
        padding: paddingOf(precision[gemm], gemm, shape, tokens),
        reason: plan.reason(shape.module, layer, gemm) ?? "",
      }));
    });
  const runs: PrecisionRow[][] = [];
  for (let layer = 0; layer < plan.numLayers; layer++) {
    const rows = rowsOf(layer);
    const last = runs.at(-1);
    if (last !== undefined && content(last) === content(rows)) {
      runs[runs.length - 1] = last.map((row) => ({ ...row, lastLayer: layer }));
    } else runs.push(rows);
  }
  return runs.flat();
}

const content = (rows: readonly PrecisionRow[]): string =>
  JSON.stringify(rows.map(({ firstLayer, lastLayer, ...rest }) => rest));

/** The name of a GEMM's format: "nvfp4", or what plain operands are called. */
export const formatOf = (spec: GemmSpec, dtype: ComputeDType): string => gemmFormat(spec) || plainNames[dtype];

/** The operands of a GEMM and its rotation in a few words. */
export function describeGemm({ left, right, rotation }: GemmSpec, dtype: ComputeDType = "bfloat16"): string {
  const plain = plainNames[dtype];
  const operand = (spec: OperandSpec) => (spec.element === "plain" ? plain : describeOperand(spec));
  return `${operand(left)} × ${operand(right)}${rotation === "none" ? "" : `, ${describeRotation(rotation)}`}`;
}

function describeRotation(rotation: Rotation): string {
  if (rotation.signs !== "fresh")
    return rotation.signs === "fixed" ? "rotated" : `rotated by ${rotation.size} without signs`;
  const key = rotation.key === "layer" ? " of the layer" : "";
  return `rotated by ${rotation.size} with fresh signs${key}`;
}

/** "e2m1 1x16 stochastic", with what differs from the plain recipe. */
function describeOperand(spec: QuantizedOperand): string {
  const { element, block, rounding, scale, source } = spec;
  const parts: string[] = [element, block, ...describeScale(scale)];
  if (rounding !== "nearest") parts.push(isBiased(spec) ? `${rounding} (biased)` : rounding);
  if (source === "fprop") parts.push("of fprop's values");
  return parts.join(" ");
}

function describeScale(scale: QuantizedOperand["scale"]): string[] {
  if (scale.type === "delayed") return ["delayed"];
  if (scale.type === "fp32") return scale.powerOfTwo ? ["2^n"] : [];
  if (scale.type === "e8m0" && scale.statistic === "std") return [`up to ${scale.sigmas.toFixed(2)}σ`];
  const { gain = 1 } = scale;
  const parts = gain === 1 ? [] : [`gain ${Number(gain.toFixed(4))}`];
  if (scale.type === "e8m0") return [...(scale.round === "floor" ? ["floor"] : []), ...parts];
  if (scale.outer === "row") parts.unshift("row-scaled");
  if (scale.outer === "1x128") parts.unshift("in 1x128");
  if (scale.bound !== undefined && scale.fourOverSix === undefined) parts.push(`bound ${scale.bound}`);
  if (scale.fourOverSix !== undefined) parts.push(`4/6 by ${scale.fourOverSix}`);
  return parts;
}

/** Dims that the quantizers pad with zeros to whole blocks and groups: the contracting dim, and both dims of tiles. */
function paddingOf({ left, right, rotation }: GemmSpec, gemm: GemmName, shape: LinearShape, tokens: number): string {
  const { inDim, outDim } = shape;
  const dims = {
    fprop: { contracted: { in: inDim }, weight: { out: outDim } },
    dgrad: { contracted: { out: outDim }, weight: { in: inDim } },
    wgrad: { contracted: { tokens }, weight: {} },
  }[gemm];
  const blocks = [left, right].flatMap((spec) => (spec.element === "plain" ? [] : [spec.block]));
  const lengths = blocks.map((block) => blockLength(block) ?? 1);
  const whole = Math.max(1, ...lengths, rotation === "none" ? 1 : rotation.size);
  const tile = Math.max(1, ...lengths.filter((_, i) => isSymmetric(blocks[i]!)));
  const padded = [
    ...Object.entries(dims.contracted).map(([name, size]) => ({ name, size, multiple: whole })),
    ...Object.entries(dims.weight).map(([name, size]) => ({ name, size, multiple: tile })),
  ];
  return padded
    .filter(({ size, multiple }) => size % multiple !== 0)
    .map(({ name, size, multiple }) => `${name} ${size}→${Math.ceil(size / multiple) * multiple}`)
    .join(", ");
}
