import { customVjp, fetchTree, type HostArray, hostArray, interpret, jit, type Tensor, valueAndGrad } from "halfbyte";

const cap = 5;
/** Keeps values between −cap and cap. Its own derivative reads the result alone, so x need not be kept for it. */
const softCap = customVjp({
  fwd: (x: Tensor) => {
    const y = x.div(cap).tanh().mul(cap);
    return { out: y, residuals: y };
  },
  bwd: (y: Tensor, ct: Tensor): [Tensor] => {
    const t = y.div(cap);
    return [ct.mul(t.mul(t).neg().add(1))];
  },
});

const loss = (x: Tensor) => softCap(x).mul(x.sin()).sum();
const data = Float64Array.of(-20, -3, -0.25, 0, 0.5, 2, 8);
const x = hostArray([data.length], "float64", data);
const numbers = ({ data }: HostArray) => Array.from(data, Number);

// Compiled, against the reference evaluator.
const compiled = jit(valueAndGrad(loss));
const { value, grad } = await fetchTree(await compiled(x));
const reference = interpret(valueAndGrad(loss), x);
report("value, compiled − interpreted", numbers(value), numbers(reference.value));
report("derivative, compiled − interpreted", numbers(grad), numbers(reference.grad));

// The derivative, against differences of the function itself.
const h = 1e-5;
const lossAt = (i: number, step: number) => {
  const moved = Float64Array.from(data, (v, j) => (j === i ? v + step : v));
  return numbers(interpret(loss, hostArray([data.length], "float64", moved)))[0]!;
};
const differences = Array.from(data, (_, i) => (lossAt(i, h) - lossAt(i, -h)) / (2 * h));
report("derivative − finite differences", numbers(grad), differences);

function report(what: string, got: readonly number[], wanted: readonly number[]): void {
  const largest = Math.max(...got.map((v, i) => Math.abs(v - wanted[i]!)));
  console.log(`${what}: at most ${largest.toExponential(1)}`);
  if (!(largest < 1e-7)) throw new Error(`${what}: got ${got}, expected ${wanted}`);
}
