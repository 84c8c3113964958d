/**
 * A recipe of the user's own as JSON text: the types of precision.ts as data, checked as strictly. A GEMM may also be the name
 * of a recipe, whose GEMM it then is (with fprop its estimators come too), and an operand "plain":
 *
 *     {"fprop": "bf16", "dgrad": "nvfp4", "wgrad": {"rotation": {"size": 16, "signs": "fixed"}, "left": {…}, "right": {…}}}
 */
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { checkPrecision } from "./checkPrecision.ts";
import { type GemmName, type GemmSpec, gemmNames, type LinearPrecision, type OperandSpec } from "./precision.ts";

const positive = z.number().gt(0);
const e4m3 = z.strictObject({
  type: z.literal("e4m3"),
  outer: z.enum(["tensor", "row", "1x128"]),
  gain: positive.optional(),
  bound: positive.optional(),
  fourOverSix: z.enum(["mae", "mse", "absmax"]).optional(),
  neverZero: z.boolean().optional(),
});
const e8m0 = z.strictObject({
  type: z.literal("e8m0"),
  statistic: z.literal("amax").optional(),
  round: z.enum(["up", "floor"]),
  gain: positive.optional(),
});
const spread = z.strictObject({ type: z.literal("e8m0"), statistic: z.literal("std"), sigmas: positive });
const fp32 = z.strictObject({ type: z.literal("fp32"), powerOfTwo: z.boolean() });
const delayed = z.strictObject({
  type: z.literal("delayed"),
  historyLength: z.int().min(1),
  algorithm: z.enum(["max", "most_recent"]),
  margin: z.int(),
});

const narrow = {
  element: z.enum(["e2m1", "int4", "e4m3", "e5m2"]),
  source: z.enum(["value", "fprop"]).optional(),
};
const rounding = z.enum(["nearest", "stochastic", "stochastic8"]);
const anySpread = z.discriminatedUnion("statistic", [e8m0, spread]);
const rowBlock = z.enum(["1x16", "1x32", "1x64", "1x128"]);
const tileBlock = z.enum(["16x16", "32x32", "64x64", "128x128"]);
const quantizedOperand = z.discriminatedUnion("block", [
  z.strictObject({
    ...narrow,
    rounding: z.enum([...rounding.options, "eden"]),
    block: rowBlock,
    scale: z.discriminatedUnion("type", [e4m3, anySpread, fp32]),
  }),
  z.strictObject({
    ...narrow,
    rounding,
    block: tileBlock,
    scale: z.discriminatedUnion("type", [e4m3.extend({ outer: z.literal("tensor") }), e8m0, fp32]),
  }),
  z.strictObject({ ...narrow, rounding, block: z.literal("row"), scale: fp32 }),
  z.strictObject({
    ...narrow,
    rounding,
    block: z.literal("tensor"),
    scale: z.discriminatedUnion("type", [fp32, delayed]),
  }),
]);
const size = z.literal([16, 32, 64, 128]);
const rotation = z.discriminatedUnion("signs", [
  z.strictObject({ size, signs: z.enum(["fixed", "none"]) }),
  z.strictObject({ size, signs: z.literal("fresh"), key: z.enum(["gemm", "layer"]).optional() }),
]);
const estimator = z.union([
  z.enum(["ste", "clip_mask"]),
  z.strictObject({ type: z.literal("dge"), k: positive, cap: positive }),
]);
const estimators = z.strictObject({ x: estimator.optional(), w: estimator.optional() });

/** Whether a value of `quantization` is a recipe written out rather than a name. */
export const isCustomRecipe = (text: string): boolean => text.trimStart().startsWith("{");

/** A value of `quantization` for messages. */
export const recipeShown = (recipe: string): string => (isCustomRecipe(recipe) ? "{…}" : recipe);

/**
 * @param named the recipe of a name
 * @throws UserError naming the place in the recipe, what is there and the rule
 */
export function parseCustomRecipe(text: string, named: (name: string) => LinearPrecision): LinearPrecision {
  const recipe = jsonObject(text);
  const unknown = Object.keys(recipe).find((key) => key !== "estimator" && !gemmNames.includes(key as GemmName));
  if (unknown !== undefined) refuse(unknown, `unknown key; a recipe has ${gemmNames.join(", ")} and perhaps estimator`);
  const [fprop, dgrad, wgrad] = gemmNames.map((gemm) => gemmOf(recipe[gemm], gemm, named)) as [
    GemmSpec,
    GemmSpec,
    GemmSpec,
  ];
  // What fprop's rounding has for a derivative belongs to fprop: its recipe says, unless this one does.
  const { estimator } =
    recipe.estimator === undefined && typeof recipe.fprop === "string"
      ? named(recipe.fprop)
      : { estimator: recipe.estimator === undefined ? undefined : read(estimators, recipe.estimator, "estimator") };
  const precision = { fprop, dgrad, wgrad, ...(estimator && { estimator }) } as LinearPrecision;
  checkPrecision(precision, subject);
  return precision;
}

/** What messages call it. */
const subject = "the recipe";

function refuse(place: string, rule: string): never {
  throw new UserError("E_PRECISION", `${subject}: ${place}: ${rule}`);
}

type JsonObject = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function jsonObject(text: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UserError("E_PRECISION", `${subject} is no JSON: ${(error as Error).message}`);
  }
  return isObject(value) ? value : refuse("all of it", `must be a JSON object of ${gemmNames.join(", ")}`);
}

function gemmOf(value: unknown, gemm: GemmName, named: (name: string) => LinearPrecision): GemmSpec {
  if (typeof value === "string") return named(value)[gemm];
  if (!isObject(value)) return refuse(gemm, "must be the name of a recipe or an object of rotation, left and right");
  const unknown = Object.keys(value).find((key) => !["rotation", "left", "right"].includes(key));
  if (unknown !== undefined) refuse(`${gemm}.${unknown}`, "unknown key; a GEMM has rotation, left and right");
  const turned =
    value.rotation === undefined || value.rotation === "none"
      ? ("none" as const)
      : read(rotation, value.rotation, `${gemm}.rotation`);
  const [left, right] = (["left", "right"] as const).map((side) => operandOf(value[side], `${gemm}.${side}`));
  const operands = { left: left!, right: right! };
  for (const side of ["left", "right"] as const) {
    const broken = brokenRotation(operands[side], turned);
    if (broken !== undefined) refuse(`${gemm}.${side}`, broken);
  }
  return { rotation: turned, ...operands } as GemmSpec;
}

function operandOf(value: unknown, place: string): OperandSpec {
  if (value === "plain" || (isObject(value) && value.element === "plain")) return { element: "plain" };
  if (value === undefined)
    return refuse(place, 'is missing: "plain", or an object of element, block, rounding and scale');
  return read(quantizedOperand, value, place) as OperandSpec;
}

/** The rules between an operand and its GEMM's rotation, which the types of precision.ts state. */
function brokenRotation(operand: OperandSpec, turned: z.infer<typeof rotation> | "none"): string | undefined {
  const isEden = operand.element !== "plain" && operand.rounding === "eden";
  if (turned === "none") return isEden ? "rounding eden needs a rotation of its GEMM with fresh signs" : undefined;
  if (operand.element === "plain")
    return "a rotation cancels only if both operands are rotated, so neither may be plain";
  if (tileBlock.safeParse(operand.block).success) {
    return `a rotated tile would differ from its transpose, so a rotated GEMM has no ${operand.block} blocks`;
  }
  if (!isEden) return undefined;
  if (turned.signs !== "fresh") return `rounding eden has no bias only under fresh signs; got ${turned.signs}`;
  const length = Number(operand.block.slice(2));
  return turned.size % length === 0
    ? undefined
    : `rounding eden corrects whole blocks: the rotation's size must be a multiple of ${length}; got ${turned.size}`;
}

/** Every key that a recipe may have, for "did you mean". */
const knownKeys = "rotation left right element block rounding scale source type outer gain bound fourOverSix neverZero"
  .concat(" statistic round sigmas powerOfTwo historyLength algorithm margin size signs key x w k cap")
  .split(" ");

function read<T>(schema: z.ZodType<T>, value: unknown, place: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = deepest(parsed.error.issues[0]!);
  const where = [place, ...issue.path.map(String)].join(".");
  if (issue.code === "unrecognized_keys") {
    const [key = ""] = issue.keys;
    const near = nearest(
      key,
      knownKeys.filter((known) => known !== key),
    );
    return refuse(`${where}.${key}`, `has no meaning here${near === undefined ? "" : `; did you mean ${near}?`}`);
  }
  const got = issue.path.reduce<unknown>((at, key) => (at as JsonObject | undefined)?.[key as string], value);
  return refuse(where, `${issue.message}; got ${JSON.stringify(got) ?? "nothing"}`);
}

/** Of the choices of a union, the mistake of the one that fits best. */
function deepest(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== "invalid_union" || issue.errors.length === 0) return issue;
  const best = [...issue.errors].sort((a, b) => a.length - b.length)[0]![0]!;
  return deepest({ ...best, path: [...issue.path, ...best.path] });
}
