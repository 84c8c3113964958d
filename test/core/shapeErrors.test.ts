/** What the user did wrong, said when tracing, with the line of the user's own file. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { composite, grad, scan, vjp } from "../../src/autodiff/index.ts";
import { ShapeError, UserError } from "../../src/base/errors.ts";
import {
  argMax,
  argMin,
  concat,
  constant,
  cumprod,
  cumsum,
  customCall,
  type DType,
  dot,
  dynamicSlice,
  dynamicUpdateSlice,
  einsum,
  foldIn,
  full,
  gather,
  hostArray,
  interpret,
  iota,
  oneHot,
  pad,
  parameter,
  parseDType,
  randomKey,
  reducePrecision,
  roll,
  scatterAdd,
  scatterUpdate,
  sort,
  sortPairs,
  spec,
  split,
  stack,
  type Tensor,
  take,
  takeAlong,
  tile,
  topK,
  trace,
  treeMap,
  where,
  zeros,
} from "../../src/core/index.ts";

const t = (shape: number[], dtype: DType = "float32"): Tensor => parameter(spec(shape, dtype));
const x = t([2, 3]);
const bf16 = t([2, 3], "bfloat16");
const int = t([2, 3], "int32");
const mask = t([2, 3], "bool");
const f8 = t([2, 3], "float8_e4m3fn");
const shifted = [[1], [2]] as const;
const twice = [1, -1] as const;

/** A function called as no type allows it. */
// biome-ignore lint/suspicious/noExplicitAny: what a caller in plain JavaScript may do.
type Loose = (...args: any[]) => unknown;

const key = randomKey(1);
const f = (y: Tensor): Tensor => y;
const call = { interpret: () => [] };

/** Each mistake on a line of its own, which the error must name. */
const mistakes: [() => unknown, string][] = [
  [() => x.add(t([2, 4])), "add: float32[2,3] and float32[2,4] do not broadcast: 3 against 4; dims must be equal or 1"],
  [
    () => x.add(bf16),
    'add: dtypes differ, float32[2,3] and bfloat16[2,3]; cast one of them, for example .astype("float32")',
  ],
  [
    () => bf16.mul(x),
    'mul: dtypes differ, bfloat16[2,3] and float32[2,3]; cast one of them, for example .astype("bfloat16")',
  ],
  [() => x.sub("1" as never), "sub: expected a Tensor or a number, got string"],
  [() => int.exp(), "exp: takes floats of 16 bits and more; got int32[2,3]"],
  [() => x.and(x), "and: takes integers of 8 to 32 bits and bool; got float32[2,3]"],
  [() => mask.add(mask), "add: takes numbers of at most 32 bits or float64; got bool[2,3]"],
  [
    () => f8.mul(f8),
    'mul: takes numbers of at most 32 bits or float64; got float8_e4m3fn[2,3]; cast it first, for example .astype("bfloat16")',
  ],
  [() => int.mul(0.5), "full: 0.5 is no int32"],
  [() => t([2], "uint8").add(-1), "full: -1 is no uint8"],
  [() => full([2], 256, "uint8"), "full: 256 is no uint8"],
  [() => full([2, -1], 0, "float32"), "full: [2,-1] is no shape; sizes must be whole numbers ≥ 0"],
  [() => zeros([1.5], "float32"), "full: [1.5] is no shape"],
  [() => iota([2, 3], 2, "int32"), "iota: dim 2 is outside int32[2,3]"],
  [() => iota([2, 3], 0.5, "int32"), "iota: a dim is a whole number; got 0.5"],
  [() => iota([2], 0, "bool"), "iota: cannot count in bool"],
  [() => x.reshape([4, 2]), "reshape: float32[2,3] has 6 elements, [4,2] has 8"],
  [() => x.reshape([-1, 4]), "reshape: float32[2,3] has 6 elements, which does not settle [-1,4]"],
  [() => x.reshape([-1, -1]), "reshape: float32[2,3] has 6 elements, which does not settle [-1,-1]"],
  [() => t([0, 3]).reshape([-1, 0]), "does not settle [-1,0]"],
  [() => x.transpose([0, 0]), "transpose: [0,0] is no permutation of the dims of float32[2,3]"],
  [() => x.broadcastTo([3, 3]), "broadcastTo: float32[2,3] does not broadcast to [3,3]"],
  [() => x.broadcastTo([-1, 2, 3]), "broadcastTo: [-1,2,3] is no shape"],
  [() => x.squeeze(0), "squeeze: dim 0 of float32[2,3] is not 1"],
  [() => x.squeeze(5), "squeeze: dim 5 is outside float32[2,3]"],
  [() => x.expandDims(4), "expandDims: float32[2,3] can get a new dim from -3 to 2, not 4"],
  [() => x.slice([0, 0], [3, 3]), "slice: [0,0] to [3,3] step [1,1] is outside float32[2,3]"],
  [() => x.slice([0, 0.5], [2, 3]), "slice: [0,0.5] to [2,3] step [1,1] must be whole numbers"],
  [() => x.expandDims(0.5), "expandDims: float32[2,3] can get a new dim from -3 to 2, not 0.5"],
  [() => x.narrow(1, 2, 2), "narrow: 2 entries from 2 are not in dim 1 of float32[2,3]; both are whole numbers ≥ 0"],
  [() => x.narrow(1, 0.5, 2), "narrow: 2 entries from 0.5 are not in dim 1 of float32[2,3]"],
  [() => x.at(2, 0), "at: dim 2 is outside float32[2,3]"],
  [() => x.at(0, -3), "at: the index must be a whole number from -2 to 1, dim 0 of float32[2,3]; got -3"],
  [() => x.at(0, 0.5), "at: the index must be a whole number from -2 to 1, dim 0 of float32[2,3]; got 0.5"],
  [() => x.reverse([2]), "reverse: dim 2 is outside float32[2,3]"],
  [() => x.reverse([0, -2]), "reverse: dims [0,-2] name dim 0 of float32[2,3] twice"],
  [() => pad(x, { low: [1], high: [1] }), "interior [0] must be whole numbers ≥ 0, one for each dim of float32[2,3]"],
  [() => pad(x, { low: [0, 0.5], high: [0, 0] }), "pad: low [0,0.5], high [0,0] and interior [0,0] must be whole"],
  [() => pad(x, { low: [0], high: [0] }), "pad: low [0], high [0] and interior [0] must be whole numbers ≥ 0"],
  [() => pad(int, { low: [1, 0], high: [0, 0], value: 0.5 }), "pad: 0.5 is no int32"],
  [() => concat([x, t([2])], 1), "concat along 1: float32[2,3] and float32[2] differ elsewhere"],
  [() => concat([x, bf16], 0), "concat along 0: float32[2,3] and bfloat16[2,3] differ elsewhere"],
  [() => concat([], 0), "concat: needs at least one tensor"],
  [() => (concat as Loose)(x, x, 0), "concat: takes Tensors in a list, concat([a, b], …)"],
  [() => (stack as Loose)(x, x, 0), "stack: takes Tensors in a list, stack([a, b], …)"],
  [() => stack([x, t([3, 2])], 0), "concat along 0: float32[1,2,3] and float32[1,3,2] differ elsewhere"],
  [() => x.sum(2), "reduce_sum: dim 2 is outside float32[2,3]"],
  [() => x.sum([0, 0]), "reduce_sum: dims [0,0] name dim 0 of float32[2,3] twice"],
  [() => x.maxOver([1, -1]), "reduce_max: dims [1,-1] name dim 1 of float32[2,3] twice"],
  [() => x.mean([0.5]), "reduce_sum: a dim is a whole number; got 0.5"],
  [() => mask.sum(), "reduce_sum: cannot reduce bool[2,3]; cast it first"],
  [() => x.any(), "any: takes bool; got float32[2,3]. Compare first, as .ne(0) does"],
  [() => int.all(0), "all: takes bool; got int32[2,3]"],
  [() => int.isNaN(), "isNaN: takes floats; got int32[2,3]"],
  [() => argMin(t([2, 0]), 1), "argMin: dim 1 of float32[2,0] is empty"],
  [() => (sort as Loose)([1, 2], 0), "sort: expected a Tensor, got object"],
  [() => (dot as Loose)(3, x), "dot: expected a Tensor, got number"],
  [() => (where as Loose)(true, x, x), "where: expected a Tensor, got boolean"],
  [() => concat([x, 3 as never], 0), "concat: expected a Tensor, got number; constant makes one of a host array"],
  [() => int.mean(), "mean: takes floats; got int32[2,3]"],
  [() => f8.maxOver(), "reduce_max: cannot reduce float8_e4m3fn[2,3]; cast it first"],
  [() => sort(x, 2), "sort: dim 2 is outside float32[2,3]"],
  [() => sortPairs(x, [t([3])], 0), "sort: keys float32[2,3] and values float32[3] must have one shape"],
  [() => topK(x, 4), "topK: k must be a whole number of 0 to 3, dim -1 of float32[2,3]; got 4"],
  [() => cumsum(x, -3), "cumsum: dim -3 is outside float32[2,3]"],
  [() => cumprod(f8, 0), "cumprod: takes numbers of at most 32 bits or float64; got float8_e4m3fn[2,3]; cast it first"],
  [() => argMax(x, 2), "argMax: dim 2 is outside float32[2,3]"],
  [() => argMax(t([2, 0]), 1), "argMax: dim 1 of float32[2,0] is empty"],
  [
    () => dot(x, x),
    "dot: float32[2,3] × float32[2,3]: contracting dims 1 and 0 have sizes 3 and 2; they must be equal",
  ],
  [() => dot(x, bf16), "dot: float32[2,3] × bfloat16[2,3]: dtypes differ; cast one operand"],
  [() => dot(x, x, { contract: [[0], [0, 1]] }), "as many contracting dims are needed on both sides"],
  [() => dot(x, x, { contract: shifted }), "dot: dim 2 is outside float32[2,3]"],
  [() => dot(x, x, { contract: [twice, twice] }), "dot: dims [1,-1] name dim 1 of float32[2,3] twice"],
  [() => dot(x, x, { contract: [[0], [0]], batch: [[0], [0]] }), "dot: dims [0,0] name dim 0 of float32[2,3] twice"],
  [() => dot(int, int, { contract: [[1], [1]], out: "float32" }), "cannot give float32"],
  [() => dot(t([2], "int4"), t([2], "int4")), "cast the operands first, for example to bfloat16"],
  [() => einsum("ij,jk", [x, x]), 'einsum "ij,jk": write letters as in "ij,jk->ik"'],
  [() => einsum("ij->ij", [x, x]), 'einsum "ij->ij": names 1 operands; got 2'],
  [() => (einsum as Loose)("ij,jk->ik", x, x), "takes its operands in a list, einsum(equation, [a, b])"],
  [() => einsum("ijk->i", [x]), 'einsum "ijk->i": "ijk" names 3 dims of float32[2,3]'],
  [() => einsum("ii->i", [x]), 'einsum "ii->i": "ii" has a name twice'],
  [() => einsum("ij,jk->ik", [x, x]), 'einsum "ij,jk->ik": j has sizes 3 and 2; they must be equal'],
  [() => einsum("ij->k", [x]), 'einsum "ij->k": k of the result is in no operand'],
  [() => where(x, x, x), "where: the condition must be bool[2,3]; got float32[2,3]"],
  [() => where(mask, x, bf16), "where: operands must have one shape and dtype; got float32[2,3] and bfloat16[2,3]"],
  [() => where(mask, 1, 0), "where: at least one of the two values must be a Tensor, so that the dtype is known"],
  [() => take(x, x), "gather: indices must be integers; got float32[2,3]"],
  [() => take(t([]), int), "take: dim 0 is outside float32[]"],
  [() => take(t([0, 2]), int), "gather: dim 0 of float32[0,2] has no entries"],
  [() => oneHot(x, 3, "float32"), "oneHot: indices must be integers; got float32[2,3]"],
  [() => oneHot(int, 1.5, "float32"), "[2,3,1.5] is no shape; sizes must be whole numbers ≥ 0"],
  [() => (constant as Loose)(3), "constant: takes a host array, as hostArray makes it; got number"],
  [() => randomKey(1.5), "a word must be a whole number from 0 to 4294967295; got 1.5. A larger seed is two words"],
  [() => randomKey(0, Number.NaN), "a word must be a whole number from 0 to 4294967295; got NaN"],
  [() => randomKey(2 ** 32), "a word must be a whole number from 0 to 4294967295; got 4294967296"],
  [() => foldIn(key, -1), "a word must be a whole number from 0 to 4294967295; got -1"],
  [() => randomKey(t([])), "a word must be a number or an integer scalar of at most 32 bits; got float32[]"],
  [() => randomKey(t([2], "int32")), "a word must be a number or an integer scalar of at most 32 bits; got int32[2]"],
  [() => randomKey(t([], "int64")), "a word must be a number or an integer scalar of at most 32 bits; got int64[]"],
  [() => (composite as Loose)("op", f), 'composite: a name is "vendor.operation", two words with a dot between'],
  [() => (composite as Loose)("a.b", f, { list: [1] }), 'attribute "list" must be a string, a number or a boolean'],
  [() => (customCall as Loose)("f", x, [x], call), "customCall: takes Tensors in a list, customCall([a, b], …)"],
  [() => gather(x, [null]), "gather: float32[2,3] takes indices for 1 to 2 dims; got 0 of 1"],
  [() => gather(x, [0, null, 1]), "gather: float32[2,3] takes indices for 1 to 2 dims; got 2 of 3"],
  [() => gather(x, [t([2], "int32"), t([3], "int32")]), "gather: int32[2] and int32[3] do not broadcast: 2 against 3"],
  [() => scatterUpdate(x, [null, int], x), "scatterUpdate: updates must be float32[2,2,3]; got float32[2,3]"],
  [() => scatterAdd(mask, int, mask), "scatterAdd: cannot add in bool; cast it first"],
  [() => takeAlong(x, t([3, 4], "int32"), 1), "takeAlong: indices must have the shape [2,4]; got int32[3,4]"],
  [() => scatterAdd(x, int, x), "scatterAdd: updates must be float32[2,3,3]; got float32[2,3]"],
  [
    () => bf16.bitcast("float32"),
    "bitcast: 2 values of bfloat16 make one float32, so the last dim must be 2; got bfloat16[2,3]",
  ],
  [() => mask.bitcast("uint8"), "bitcast: bool has no bits; got bool[2,3]"],
  [
    () => reducePrecision(int, { exponentBits: 8, mantissaBits: 7 }),
    "reducePrecision: takes floats of 16 bits and more",
  ],
  [
    () => reducePrecision(x, { exponentBits: 0, mantissaBits: 7 }),
    "reducePrecision: needs whole numbers of at least 1 bit; got 0 and 7",
  ],
  [() => dynamicSlice(x, [0, 0], [2, 4]), "dynamicSlice: a window of [2,4] does not fit into float32[2,3]"],
  [() => dynamicSlice(x, [0], [1, 1]), "dynamicSlice: float32[2,3] needs 2 starts, one for each dim; got 1"],
  [() => dynamicSlice(x, [0, t([1], "int32")], [1, 1]), "dynamicSlice: starts are scalars; got int32[1]"],
  [() => dynamicSlice(x, [0, t([])], [1, 1]), "dynamicSlice: indices must be integers; got float32[]"],
  [
    () => dynamicUpdateSlice(x, bf16, [0, 0]),
    "dynamicUpdateSlice: bfloat16[2,3] is put into float32[2,3]; cast one of them",
  ],
  [() => split(x, 2, 1), "split: dim 1 of float32[2,3] cannot be cut into 2 equal pieces"],
  [() => split(x, [1, 1], 1), "split: dim 1 of float32[2,3] cannot be cut into pieces of [1,1]"],
  [() => tile(x, [2]), "tile: float32[2,3] needs 2 counts, one for each dim; got [2]"],
  [() => roll(x, 0.5, 0), "roll: the shift must be a whole number; got 0.5"],
  [
    () => scan((c: Tensor) => ({ carry: c.sum(), y: null }), x, null, { length: 1 }),
    "scan: the carry went in as float32[2,3] and came out as float32[]; it must not change",
  ],
  [() => scan((c: Tensor) => ({ carry: c, y: null }), x, null), "scan: give `length` where there are no xs"],
  [
    () => scan((c: Tensor) => ({ carry: c, y: null }), x, [t([2]), t([3])]),
    "scan: xs must have 2 slices along dim 0; got float32[3]",
  ],
  [
    () => scan((c: Tensor) => ({ carry: c, y: null }), x, null, { length: -1 }),
    "scan: length must be a whole number ≥ 0; got -1",
  ],
  [() => grad((x: Tensor) => x)(x), "grad: the function must return a scalar; got float32[2,3]. Use vjp, or reduce it"],
];

const ownPath = fileURLToPath(import.meta.url);
const ownLines = readFileSync(ownPath, "utf8").split("\n");

const errorOf = (f: () => unknown): Error => {
  try {
    f();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
};

describe("a shape error", () => {
  it.each(mistakes.map(([f, message]) => [message, f] as const))("%s", (message, f) => {
    const error = errorOf(f);
    expect(error).toBeInstanceOf(ShapeError);
    expect(error.message).toContain(message);
    const place = error.message.match(/\(at (.*):(\d+):(\d+)\)$/);
    expect(place?.[1]).toBe(ownPath);
    // The mistake stands before its message, on the same line or the one above.
    const line = ownLines[Number(place?.[2]) - 1];
    const own = ownLines.findIndex((text) => text.includes(JSON.stringify(message)) || text.includes(`'${message}'`));
    expect([ownLines[own], ownLines[own - 1]]).toContain(line);
    expect(line).toContain("() =>");
  });

  it("names the line inside the traced function, not that of the trace", () => {
    const f = (x: Tensor) => {
      const y = x.mul(2);
      return y.add(t([7])); // here
    };
    const { message } = errorOf(() => trace(f, spec([2, 3], "float32")));
    const line = Number(message.match(/:(\d+):\d+\)$/)?.[1]);
    expect(ownLines[line - 1]).toContain("// here");
  });
});

describe("an unknown dtype", () => {
  const wrong = "float31" as DType;
  it.each([
    ["astype", () => x.astype(wrong)],
    ["bitcast", () => x.bitcast(wrong)],
    ["full", () => full([2], 0, wrong)],
    ["iota", () => iota([2], 0, wrong)],
    ["dot", () => dot(x, x, { contract: [[1], [1]], out: wrong })],
    ["oneHot", () => oneHot(int, 3, wrong)],
    ["customCall", () => customCall("f", [x], [{ shape: [2], dtype: wrong }], { interpret: () => [] })],
    ["trace", () => trace((y: Tensor) => y, spec([2], wrong))],
    ["hostArray", () => hostArray([2], wrong, new Float32Array(2))],
  ])("%s offers the nearest, and says where", (_, use) => {
    const error = errorOf(use);
    expect(error).toMatchObject({ code: "E_DTYPE" });
    expect(error.message).toMatch(`unknown dtype "float31". Did you mean "float32"? (at ${ownPath}:`);
  });

  it("is not one of the names that every object has", () => {
    expect(() => parseDType("toString")).toThrow('unknown dtype "toString"');
  });
});

describe("the interpreter checks its inputs as a device does", () => {
  const same = (y: Tensor) => y;
  it.each([
    [{ shape: [4], dtype: "float32", data: new Float32Array(2) }, "float32[4] needs a Float32Array of 4 values"],
    [{ shape: [2], dtype: "float32", data: [1, 2] }, "float32[2] needs a Float32Array of 2 values; got a Array of 2"],
    [{ shape: [-2, -2], dtype: "float32", data: new Float32Array(4) }, "is no shape"],
    [{ shape: [2], dtype: "bool", data: Uint8Array.of(1, 2) }, "bool[2] holds values from 0 to 1; got 2"],
    [{ shape: [1], dtype: "float4_e2m1fn", data: Uint8Array.of(200) }, "holds values from 0 to 15; got 200"],
    [{ shape: [1], dtype: "int4", data: Int8Array.of(-20) }, "holds values from -8 to 7; got -20"],
    [3, "interpret takes host arrays; got number"],
  ])("%j", (host, message) => {
    expect(() => interpret(same, host as never)).toThrow(message);
    if (typeof host === "object") expect(() => constant(host as never)).toThrow(message);
  });

  it("tracing takes what has a shape and a dtype", () => {
    expect(() => trace((y: { a: Tensor }) => y.a, { a: 3 })).toThrow('"float32"); got number at "a"');
  });
});

describe("what is counted from the end, and empty dims", () => {
  const host = hostArray([2, 3], "float32", Float32Array.of(1, 2, 3, 4, 5, 6));
  const valuesOf = (f: (y: Tensor) => Tensor) => [...interpret(f, host).data];

  it("negative dims and indices count from the end", () => {
    expect(valuesOf((y) => y.at(-1, -1))).toEqual([3, 6]);
    expect(valuesOf((y) => dot(y, y, { contract: [[-1], [-1]] }))).toEqual([14, 32, 32, 77]);
    expect(valuesOf(() => iota([2, 2], -1, "float32"))).toEqual([0, 1, 0, 1]);
  });

  it("of a dim without entries zeros are read, also backwards", () => {
    const places = () => iota([2], 0, "int32");
    const read = (y: Tensor) => gather(y.narrow(0, 0, 0), places(), { outside: "zero" });
    expect(valuesOf(read)).toEqual([0, 0, 0, 0, 0, 0]);
    const written = (y: Tensor) => scatterAdd(y.narrow(0, 0, 0), places(), y.mul(2)).sum();
    expect(valuesOf(grad(written))).toEqual([0, 0, 0, 0, 0, 0]);
  });
});

describe("tensors and trees out of place", () => {
  it("a Tensor does not leave the function that received it", () => {
    let escaped: Tensor | undefined;
    trace((x: Tensor) => {
      escaped = x;
      return x;
    }, x);
    const messageOf = (f: (y: Tensor) => Tensor) => {
      const error = errorOf(() => trace(f, x));
      expect(error).toBeInstanceOf(UserError);
      return error.message;
    };
    const rule =
      "float32[2,3] is a parameter of another traced function; a Tensor is only valid inside the function that received it";
    const direct = messageOf((y) => {
      const z = y.neg();
      return z.add(escaped!); // read here
    });
    const derived = escaped!.mul(2);
    const later = messageOf((y) => {
      return y.sub(derived).exp(); // read through another
    });
    const looped = messageOf((y) => {
      const step = (c: Tensor) => ({ carry: c.mul(escaped!), y: null });
      return scan(step, y, null, { length: 2 }).carry.neg(); // read in a loop
    });
    for (const [message, comment] of [
      [direct, "read here"],
      [later, "read through another"],
      [looped, "read in a loop"],
    ] as const) {
      expect(message).toMatch(`${rule} (at ${ownPath}:`);
      expect(ownLines[Number(message.match(/:(\d+):\d+\)$/)?.[1]) - 1]).toContain(`// ${comment}`);
    }
    expect(messageOf(() => escaped!)).toBe(rule);
  });

  it("a traced function returns Tensors", () => {
    const error = errorOf(() => trace((x: Tensor) => ({ loss: x, step: [3] }), x));
    expect(error).toBeInstanceOf(UserError);
    expect(error.message).toBe('a traced function must return Tensors; got number at "step.0"');
  });

  it("trees are matched by name, and the nearest name is offered", () => {
    const sum = (a: object, b: object) => treeMap((l: number, r: number) => l + r, a, b);
    expect(sum({ a: 1, b: { c: 2 } }, { b: { c: 20 }, a: 10 })).toEqual({ a: 11, b: { c: 22 } });
    expect(() => sum({ weight: 1 }, { wieght: 1 })).toThrow(
      'trees differ: "weight" has no counterpart; the nearest is "wieght"',
    );
    expect(() => sum({ a: 1 }, { a: 1, b: 2 })).toThrow('trees differ: 1 leaves against 2; "b" is too many');
  });

  it("a cotangent has the tree of the result", () => {
    const f = (x: Tensor) => ({ out: x.mul(2) });
    expect(() => vjp(f, x).pullback({ other: x } as never)).toThrow(
      'vjp: result and cotangent differ: "out" has no counterpart',
    );
  });

  it("a carry keeps its tree, whatever the order of its keys", () => {
    const swap = ({ a, b }: { a: Tensor; b: Tensor }) => ({ carry: { b: b.mul(1), a }, y: null });
    const { carry } = scan(swap, { a: t([2]), b: t([2]) }, null, { length: 1 });
    expect(Object.keys(carry)).toEqual(["a", "b"]);
    expect(() => scan(() => ({ carry: { a: x } as never, y: null }), { a: x, b: x }, null, { length: 1 })).toThrow(
      'scan: the carry before and after a step differ: "b" has no counterpart',
    );
  });
});
