/** Cases of the element-by-element operations, on tensors and with numbers (which the compiler may rewrite). */
import {
  clamp,
  type DType,
  dtypeInfo,
  type HostArray,
  isFloat,
  type Tensor,
  toValues,
} from "../../../src/core/index.ts";
import { exact, exactButZeros, type Rule, within } from "./compare.ts";
import { casesOf, draw, type OpCase } from "./opCase.ts";
import { allValues, arrays, hostOf, withoutDenormals } from "./values.ts";

const exactUnary = ["neg", "abs", "sign", "sqrt", "floor", "ceil", "roundEven", "isFinite", "isNaN", "not"] as const;
const approximateUnary = ["exp", "log", "log1p", "expm1", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos"] as const;
const exactBinary = [
  ...(["add", "sub", "mul", "div", "rem", "max", "min", "and", "or", "xor", "shiftLeft", "shiftRight"] as const),
  ...(["eq", "ne", "lt", "le", "gt", "ge"] as const),
];

/** Numbers as operands. */
const withNumbers: Record<string, (x: Tensor) => Tensor> = {
  "sub 0": (x) => x.sub(0),
  "sub itself": (x) => x.sub(x),
  "mul 1": (x) => x.mul(1),
  "mul 0": (x) => x.mul(0),
  "mul -1": (x) => x.mul(-1),
  "mul 2": (x) => x.mul(2),
  "mul 3": (x) => x.mul(3),
  "div 1": (x) => x.div(1),
  "div 3": (x) => x.div(3),
  "div 8": (x) => x.div(8),
  "rem 3": (x) => x.rem(3),
  "max 0": (x) => x.max(0),
  "min 1": (x) => x.min(1),
  "clamp to 2, 6": (x) => clamp(x, 2, 6),
  "neg neg": (x) => x.neg().neg(),
  "and 6": (x) => x.and(6),
  "or 6": (x) => x.or(6),
  "xor itself": (x) => x.xor(x),
  "shiftLeft 3": (x) => x.shiftLeft(3),
  "shiftRight 3": (x) => x.shiftRight(3),
  "eq itself": (x) => x.eq(x),
  "lt 1": (x) => x.lt(1),
  "mul and add": (x) => x.mul(x).astype("float64").add(1),
  "one over": (x) => x.sign().add(1).div(x),
};
const powers = [2, 3, 0.5, -1, -0.5, 0, 1, 2.5];

/** Not a multiple of any vector width, so that the compiled loop's last elements are computed apart. */
const length = 517;

/** Inputs by dtype, made once. */
function once(make: (dtype: DType) => HostArray[]): (dtype: DType) => HostArray[] {
  const made = new Map<DType, HostArray[]>();
  return (dtype) => {
    const inputs = made.get(dtype) ?? make(dtype);
    made.set(dtype, inputs);
    return inputs;
  };
}

const unaryInputs = once((dtype) =>
  dtypeInfo(dtype).bits <= 16 ? [allValues(dtype)] : draw(dtype, arrays(dtype, [length])),
);

/** As `unaryInputs`, without the integer 0, which divided by itself is 1 to the compiler and −1 otherwise. */
function divisors(dtype: DType): HostArray[] {
  const [host] = unaryInputs(dtype) as [HostArray];
  return [
    isFloat(dtype)
      ? host
      : hostOf(
          dtype,
          host.shape,
          Array.from(toValues(host).data, (x) => x || 1),
        ),
  ];
}

const binaryInputs = once((dtype) => draw(`${dtype} pairs`, arrays(dtype, [length]), 2));

/** 16-bit floats are computed in float32 and rounded. */
const approximately = (dtype: DType): Rule => within(dtypeInfo(dtype).bits < 32 ? 1 : 4);

/** Powers of numbers that a compiled program may or may not take as zero are not defined: their bases are left out. */
const powerInputs = (inputs: HostArray[]): HostArray[] => [withoutDenormals(inputs[0]!), ...inputs.slice(1)];

export function elementwiseCases(): OpCase[] {
  return [
    ...exactUnary.flatMap((name) =>
      casesOf(
        name,
        (x) => x[name](),
        unaryInputs,
        () => exact,
      ),
    ),
    ...approximateUnary.flatMap((name) => casesOf(name, (x) => x[name](), unaryInputs, approximately)),
    ...exactBinary.flatMap((name) =>
      casesOf(
        name,
        (a, b) => a[name](b!),
        binaryInputs,
        () => exact,
      ),
    ),
    ...casesOf(
      "pow",
      (a, b) => a.pow(b!),
      (dtype) => powerInputs(binaryInputs(dtype)),
      approximately,
    ),
    ...powers.flatMap((p) =>
      casesOf(
        `pow ${p}`,
        (x) => x.pow(p),
        (dtype) => powerInputs(unaryInputs(dtype)),
        approximately,
      ),
    ),
    // XLA drops the sum, and with it that −0 + 0 is 0.
    ...casesOf(
      "add 0",
      (x) => x.add(0),
      unaryInputs,
      () => exactButZeros,
    ),
    ...casesOf(
      "div itself",
      (x) => x.div(x),
      divisors,
      () => exact,
    ),
    ...Object.entries(withNumbers).flatMap(([name, f]) => casesOf(name, f, unaryInputs, () => exact)),
  ];
}
