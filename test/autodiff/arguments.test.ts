/** What a user may hand over wrongly, and the sentence that says so. */
import { expect, it } from "vitest";
import {
  composite,
  cond,
  customVjp,
  grad,
  remat,
  scan,
  valueAndGrad,
  vjp,
  whileLoop,
} from "../../src/autodiff/index.ts";
import { UserError } from "../../src/base/errors.ts";
import { hostArray, type Tensor, trace } from "../../src/core/index.ts";

const x = hostArray([4], "float32", Float32Array.of(1, 2, 3, 4));
// biome-ignore lint/suspicious/noExplicitAny: what the types would refuse is what is tested.
type Loose = any;

const sine = (bwd: Loose) =>
  customVjp({ fwd: (a: Tensor) => ({ out: a.sin(), residuals: a }), bwd: bwd as () => [Tensor] });
const pulled = (ct: (out: Tensor) => Loose) => (x: Tensor) => {
  const { out, pullback } = vjp((x: Tensor) => x.sin(), x);
  return pullback(ct(out));
};
const withOne = (f: Loose) => (x: Tensor) => f(x.sum().gt(0), () => x);

it.each<[string, (x: Tensor) => unknown, RegExp]>([
  [
    "bwd gives no list",
    grad((x: Tensor) => sine((_: Tensor, ct: Tensor) => ct)(x).sum()),
    /bwd must return a list of 1.*got a Tensor float32\[4\]/,
  ],
  ["bwd gives too few", grad((x: Tensor) => sine(() => [])(x).sum()), /bwd must return a list of 1.*got a list of 0/],
  [
    "bwd gives too many",
    grad((x: Tensor) => sine((_: Tensor, ct: Tensor) => [ct, ct])(x).sum()),
    /list of 1.*got a list of 2/,
  ],
  [
    "fwd gives its result alone",
    customVjp({ fwd: (a: Tensor) => a, bwd: () => [null] } as Loose),
    /fwd must return \{ out, residuals \}; got a Tensor/,
  ],
  [
    "a cotangent's shape",
    pulled((out) => out.sum()),
    /the cotangent must be, like the result, float32\[4\]; got float32\[\]/,
  ],
  ["a cotangent's dtype", pulled((out) => out.astype("bfloat16")), /float32\[4\]; got bfloat16\[4\]/],
  ["a cotangent's tree", pulled((out) => ({ out })), /result and cotangent differ/],
  ["a cotangent that is a number", pulled(() => 1), /cotangent must be a Tensor.*got 1/],
  [
    "grad of an integer",
    grad((x: Tensor) => x.astype("int32").sum()),
    /must return a float, since int32\[\] has no derivative/,
  ],
  ["grad of a bool", grad((x: Tensor) => x.sum().gt(0)), /must return a float, since bool\[\]/],
  ["grad of a vector", grad((x: Tensor) => x), /must return a scalar; got float32\[4\]/],
  ["grad of a number", grad((() => 3) as Loose), /must return a scalar Tensor; got 3/],
  [
    "grad along a number",
    (x) => grad(((a: number) => x.mul(a).sum()) as Loose)(2),
    /the first argument must be a Tensor.*got 2/,
  ],
  [
    "aux that was not asked for",
    valueAndGrad(((x: Tensor) => ({ value: x.sum(), aux: x })) as Loose),
    /use valueAndGrad\(f, \{ aux: true \}\)/,
  ],
  [
    "aux that was asked for",
    valueAndGrad(((x: Tensor) => x.sum()) as Loose, { aux: true }),
    /must return \{ value, aux \}; got a Tensor float32\[\]/,
  ],
  ["cond with one branch", withOne(cond), /onFalse must be a function; got undefined/],
  [
    "scan from a number",
    (x) => scan((c: Tensor) => ({ carry: c, y: null }), 0 as Loose, x),
    /scan: init must be a Tensor.*got 0; a number becomes one by full\(\[\], 0/,
  ],
  [
    "scan's body gives a list",
    (x) => scan(((c: Tensor, a: Tensor) => [c, a]) as Loose, x, x),
    /must return \{ carry, y \}; got a list of 2/,
  ],
  [
    "scan's body gives a Tensor",
    (x) => scan(((c: Tensor) => c) as Loose, x, x),
    /must return \{ carry, y \}; got a Tensor/,
  ],
  [
    "scan's body gives ys",
    (x) => scan(((c: Tensor) => ({ carry: c, ys: c })) as Loose, x, x),
    /got a key "ys"; the nearest is "y"/,
  ],
  [
    "scan over a scalar",
    (x) => scan((c: Tensor) => ({ carry: c, y: null }), x, x.sum()),
    /xs must have a dim 0 to step along; got float32\[\]/,
  ],
  [
    "whileLoop without a body",
    (x) => whileLoop((x: Tensor) => x.sum().lt(1), undefined as Loose, x),
    /the body must be a function/,
  ],
  [
    "a remat policy by name",
    () => remat((x: Tensor) => x, "minimal" as Loose),
    /the policy is \{ dots: true \}.*got "minimal"/,
  ],
  [
    "a remat policy of another key",
    () => remat((x: Tensor) => x, { dot: true } as Loose),
    /got a key "dot"; the nearest is "dots"/,
  ],
  ["remat names that are none", () => remat((x: Tensor) => x, { names: "k" } as Loose), /got names: "k"/],
  ["remat of a number", remat((() => 3) as Loose), /the function's result must be a Tensor/],
  ["composite of a number", composite("test.a", (() => 3) as Loose), /the function's result must be a Tensor/],
])("%s", (_, f, message) => {
  const run = () => trace((x: Tensor) => f(x) as Loose, x);
  expect(run).toThrow(UserError);
  expect(run).toThrow(message);
  // In what the user wrote, not in a line of the library.
  expect(run).toThrow(/arguments\.test\.ts:\d+:\d+\)$/);
});
