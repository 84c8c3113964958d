/** `halfbyte inspect numerics`: one block of a quantized matrix, from its values to its codes and back. */
import { writeFileSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { writing } from "../checkpoint/index.ts";
import { precisionPlan } from "../config/index.ts";
import { decodeArray } from "../core/codecs.ts";
import { type HostArray, interpret, type Tensor } from "../core/index.ts";
import { notFiniteAsText, shownNumber, terminalAbilities } from "../metrics/index.ts";
import {
  type BlockDetail,
  blockDetail,
  blockGrid,
  blocksAt,
  describeGemm,
  formats,
  type GemmName,
  gemmNames,
  isDelayed,
  type LinearTensor,
  linearTensors,
  type OperandPlace,
  type QuantizedOperand,
  type QuantizedValues,
  quantizedTensors,
  snrOf,
  switchKeys,
  tensorAt,
} from "../quant/index.ts";
import { parseArguments } from "./arguments.ts";
import { blockPicture, blockSvg } from "./blockPicture.ts";
import type { Command } from "./command.ts";
import { inspectedTensor, noEffect, sourceKeys } from "./inspectedTensor.ts";
import { configOf } from "./settings.ts";

const ownKeys = [...sourceKeys, "gemm", "operand", "block", "scale", "svg"] as const;
/** The keys of a configuration that a block depends on. */
const precisionKeys: readonly string[] = ["config", "quantization", "rounding_seed", ...switchKeys];
const shownElements = 32;

export const command: Command = {
  help: `Usage: halfbyte inspect numerics [FILE tensor=NAME] [key=value …] [--json]

Shows what a recipe makes of one block of a matrix: the scale and what it comes from, and for each element its value, what is
rounded, the code, what it decodes to and the error; as numbers and on a number line.

  FILE tensor=NAME   a weight of a .safetensors file, a checkpoint, a run (its newest checkpoint) or a model's folder,
                     with shards too
  values=0.1,2,-3    numbers of your own
  synthetic=…        normal, or outlier (default): normal values with one of 50; with rows=, columns= (64), seed= (0)
  quantization=…     the recipe (default nvfp4), and its switches: rht=, stochastic_rounding=, scale_gain=, …
  gemm=…             which GEMM reads it: fprop (default), dgrad or wgrad
  operand=…          as what: x (the layer's input), w (its weight; default for a FILE) or dy (the result's gradient)
  scale=S            with delayed scaling the scale in force, which comes from the steps before (default 1, as in the first)
  block=ROW,COLUMN   which block (default 0,0)
  rounding_seed=N    decides the draws of stochastic rounding
  svg=FILE           writes the picture as an SVG file
  --json             the same as JSON on standard output

Example: halfbyte inspect numerics values=0.1,2,-3,0.7,1.1,-0.2,5,0.01 quantization=nvfp4
         halfbyte inspect numerics synthetic=outlier gemm=wgrad operand=dy rounding_seed=1
`,
  async run(args) {
    const { words, flags, settings } = parseArguments(args, { maxWords: 1, ownKeys });
    const own = Object.fromEntries(Object.entries(settings).filter(([key]) => ownKeys.includes(key as never)));
    const keys = Object.fromEntries(Object.entries(settings).filter(([key]) => !ownKeys.includes(key as never)));
    const config = await configOf(
      undefined,
      { dataset_type: "synthetic", quantization: "nvfp4", ...keys },
      { draft: true },
    );
    const idle = Object.keys(keys).find((key) => !precisionKeys.includes(key));
    if (idle !== undefined)
      throw noEffect(idle, "one matrix is looked at; what decides are quantization, its switches and rounding_seed");
    const { recipe } = precisionPlan(config);
    const { gemm, tensor } = placeOf(own, words.length > 0);
    const operand = tensorAt[gemm].left === tensor ? "left" : "right";
    const spec = recipe.precision[gemm][operand];
    if (spec.element === "plain")
      throw new UserError("E_NUMERICS", `${recipe.name} does not quantize ${tensor} in ${gemm}`);
    const scaleInForce = scaleOf(own.scale, spec, recipe.name);
    const random = { seed: config.run.roundingSeed, step: 1, microBatch: 0 };
    const place: OperandPlace = {
      site: { module: "mlp.up", layer: 0, precision: recipe.precision, random },
      gemm,
      operand,
    };
    const { axis, block } = blocksAt(spec, place);
    const width = block.rows > 1 && block.columns > 1 ? block.columns : axis === "row" ? Number.POSITIVE_INFINITY : 1;
    const { matrix, from } = await inspectedTensor(words[0], own, width);
    const values = quantizedValues(matrix, spec, place, scaleInForce);
    const detail = blockDetail(values, spec, { ...blockPlace(own.block, values, axis), axis });
    const tensorSnrDb = snrOf(values.source, values.decoded);
    const shown: Shown = {
      detail,
      spec,
      matrix,
      from,
      axis,
      tensorSnrDb,
      scaleInForce: isDelayed(spec) ? scaleInForce : undefined,
      what: `${recipe.name}, ${tensor} in ${gemm}: ${describeGemm(recipe.precision[gemm])}`,
      isRotated: recipe.precision[gemm].rotation !== "none",
      values,
    };
    const picture = {
      detail,
      format: formats[spec.element],
      title: `${recipe.name}, ${tensor} in ${gemm}, block ${detail.row},${detail.column}`,
    };
    if (own.svg !== undefined) writing(own.svg, () => writeFileSync(own.svg!, blockSvg(picture)));
    const text = flags.has("json")
      ? `${JSON.stringify(
          {
            recipe: recipe.name,
            gemm,
            tensor,
            operand: spec,
            from,
            shape: matrix.shape,
            ...(isDelayed(spec) && { scaleInForce }),
            tensorSnrDb,
            ...detail,
          },
          notFiniteAsText,
          2,
        )}\n`
      : [
          ...asText(shown),
          "",
          ...blockPicture(picture, terminalAbilities(process.stdout)),
          ...(own.svg === undefined ? [] : [`the picture is in ${own.svg}`]),
          "",
        ].join("\n");
    await new Promise((done) => process.stdout.write(text, done));
    return 0;
  },
};

interface Shown {
  readonly what: string;
  readonly from: string;
  readonly spec: QuantizedOperand;
  readonly detail: BlockDetail;
  readonly matrix: HostArray;
  readonly values: QuantizedValues;
  readonly axis: "row" | "col";
  readonly tensorSnrDb: number;
  /** Of delayed scaling. */
  readonly scaleInForce: number | undefined;
  readonly isRotated: boolean;
}

function asText({ what, from, detail, spec, matrix, values, tensorSnrDb, scaleInForce, isRotated }: Shown): string[] {
  const { size, elements } = detail;
  const last = elements.at(-1)!;
  const before = decodeArray(matrix.dtype, matrix.data);
  const [M, N] = matrix.shape as [number, number];
  const unrotated = (row: number, column: number) => (row < M && column < N ? before[row * N + column]! : 0);
  const isStochastic = elements.some(({ chanceAway }) => chanceAway !== undefined);
  const head = [
    "row",
    "column",
    ...(isRotated ? ["before", "rotated"] : ["value"]),
    "× e",
    ...(isStochastic ? ["between", "away"] : []),
    "code",
    "rounded",
    "decoded",
    "error",
  ];
  const rows = elements
    .slice(0, shownElements)
    .map((x) => [
      `${x.row}`,
      `${x.column}`,
      ...(isRotated ? [exact(unrotated(x.row, x.column))] : []),
      exact(x.value),
      exact(x.scaled),
      ...(isStochastic ? [`${exact(x.below)}…${exact(x.above)}`, `${(100 * (x.chanceAway ?? 0)).toFixed(1)} %`] : []),
      x.code === undefined ? "–" : hex(x.code, spec.element === "e2m1" ? 4 : 8),
      exact(x.rounded),
      exact(x.decoded),
      exact(x.error),
    ]);
  const hidden = elements.length - rows.length;
  const bits = detail.scaleDType === "float32" ? 32 : 8;
  return [
    what,
    `matrix [${matrix.shape.join(", ")}] bfloat16, ${from}`,
    ...notFiniteNote(before),
    ...(scaleInForce === undefined
      ? []
      : [
          `delayed scaling: the scale in force is ${exact(scaleInForce)}${scaleInForce === 1 ? ", as in a first step" : ""}; scale= sets another`,
        ]),
    ...(isRotated
      ? [`rotated first, in groups along ${size.rows > 1 ? "columns" : "rows"}: [${values.shape.join(", ")}]`]
      : []),
    `block ${detail.row},${detail.column} of ${size.rows}×${size.columns}: rows ${elements[0]!.row}–${last.row}, columns ${elements[0]!.column}–${last.column}`,
    "",
    ...(detail.outerAmax === undefined
      ? []
      : [
          `A  largest magnitude under the outer scale  ${exact(detail.outerAmax)}`,
          `S  encode scale of A                        ${exact(detail.outerScale!)}`,
        ]),
    `a  largest magnitude of the block           ${exact(detail.blockAmax)}`,
    ...(detail.scaleBefore === undefined
      ? []
      : [`   its scale before rounding                ${exact(detail.scaleBefore)}`]),
    `s  stored scale                             ${exact(detail.scale)} = ${hex(detail.scaleBits, bits)} (${detail.scaleDType})`,
    ...(detail.encodeScale === undefined
      ? []
      : [`e  what elements are multiplied by           ${exact(detail.encodeScale)}`]),
    "",
    ...aligned([head, ...rows]),
    ...(hidden > 0 ? [`… ${hidden} more elements: --json has all`] : []),
    ...(isStochastic ? ["away: the chance of the neighbour farther from 0, which a draw decides"] : []),
    `SNR of the block ${decibel(
      detail.snrDb,
      elements.map(({ value }) => value),
    )}, of the matrix ${decibel(tensorSnrDb, values.source)}`,
  ];
}

function placeOf(
  { gemm = "fprop", operand }: Readonly<Record<string, string>>,
  ofFile: boolean,
): { gemm: GemmName; tensor: LinearTensor } {
  if (!gemmNames.includes(gemm as GemmName))
    throw new UserError("E_NUMERICS", `gemm=${gemm}: must be one of ${gemmNames.join(", ")}`);
  const read = tensorAt[gemm as GemmName];
  const byDefault = ofFile && Object.values(read).includes("w") ? "w" : read.left;
  const tensor = (operand ?? byDefault) as LinearTensor;
  if (!linearTensors.includes(tensor) || !Object.values(read).includes(tensor)) {
    throw new UserError("E_NUMERICS", `operand=${operand}: ${gemm} reads ${read.left} and ${read.right}`);
  }
  return { gemm: gemm as GemmName, tensor };
}

/** The scale in force. @throws UserError */
function scaleOf(text: string | undefined, spec: QuantizedOperand, recipe: string): number {
  if (text === undefined) return 1;
  if (!isDelayed(spec)) throw noEffect("scale", `${recipe} finds this operand's scales in the matrix itself`);
  const scale = Math.fround(Number(text));
  if (scale > 0 && Number.isFinite(scale)) return scale;
  throw new UserError("E_NUMERICS", `scale=${text}: must be a float32 above 0`);
}

function quantizedValues(
  matrix: HostArray,
  spec: QuantizedOperand,
  place: OperandPlace,
  scaleInForce: number,
): QuantizedValues {
  const found = interpret((x: Tensor) => quantizedTensors(x, spec, place, scaleInForce), matrix);
  const floats = ({ data }: HostArray) => data as Float32Array;
  return {
    shape: found.source.shape as unknown as readonly [number, number],
    source: floats(found.source),
    scaled: floats(found.scaled),
    elements: floats(found.elements),
    decoded: floats(found.decoded),
    scales: floats(found.scales),
    outerAmax: spec.scale.type === "e4m3" ? floats(found.outerAmax) : undefined,
    block: blocksAt(spec, place).block,
  };
}

function blockPlace(text = "0,0", values: QuantizedValues, axis: "row" | "col"): { row: number; column: number } {
  const { rows, columns } = blockGrid(values, axis);
  const [, row, column] = (/^(\d+),(\d+)$/.exec(text) ?? []).map(Number);
  if (row !== undefined && column !== undefined && row < rows && column < columns) return { row, column };
  throw new UserError("E_NUMERICS", `block=${text}: must be ROW,COLUMN from 0,0 to ${rows - 1},${columns - 1}`);
}

const exact = (value: number): string => String(Number(value.toPrecision(6))).replace("-", "−");
const hex = (code: number, bits: number): string => `0x${code.toString(16).padStart(bits / 4, "0")}`;

/** @param values what the signal is of */
function decibel(snrDb: number, values: ArrayLike<number>): string {
  const list = Array.from(values);
  if (!list.every(Number.isFinite)) return "none (values are not finite)";
  if (Number.isFinite(snrDb)) return `${shownNumber(snrDb)} dB`;
  if (snrDb > 0) return "infinite (no error)";
  return list.every((value) => value === 0) ? "none (all zeros)" : "none (what is decoded is not finite)";
}

function notFiniteNote(values: ArrayLike<number>): string[] {
  const bad = Array.from(values).filter((value) => !Number.isFinite(value)).length;
  return bad === 0 ? [] : [`${bad} of ${values.length} values ${bad === 1 ? "is" : "are"} not finite in bfloat16`];
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows.map((row) => row.map((cell, i) => cell.padStart(widths[i]!)).join("  "));
}
