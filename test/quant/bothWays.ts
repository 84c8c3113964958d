/** Runs functions of Tensors in the two ways there are, for tests that compare them. */
import { decodeArray } from "../../src/core/codecs.ts";
import { type DType, type HostArray, hostArray, interpret, isFloat, treeLeaves } from "../../src/core/index.ts";
import { disposeTree, fetchTree, jit } from "../../src/jit/index.ts";

// biome-ignore lint/suspicious/noExplicitAny: any function of trees of Tensors.
type Traceable = (...args: any[]) => unknown;

/** Leaves of f's result by the TypeScript interpreter. */
export function interpreted(f: Traceable, ...args: unknown[]): HostArray[] {
  return treeLeaves<HostArray>(interpret(f as (...args: unknown[]) => unknown, ...(args as never[])));
}

/** A compiled f; its executables live until the process ends. */
export function compiledFunction(f: Traceable): (...args: unknown[]) => Promise<HostArray[]> {
  const program = jit(f as (...args: unknown[]) => unknown, { name: "under_test" });
  return async (...args) => {
    const onDevice = await program(...(args as never[]));
    const leaves = treeLeaves<HostArray>(await fetchTree(onDevice));
    disposeTree(onDevice);
    return leaves;
  };
}

/** Leaves of f's result by XLA. */
export async function compiled(f: Traceable, ...args: unknown[]): Promise<HostArray[]> {
  const program = jit(f as (...args: unknown[]) => unknown, { name: "under_test" });
  const onDevice = await program(...(args as never[]));
  const leaves = treeLeaves<HostArray>(await fetchTree(onDevice));
  disposeTree(onDevice);
  program.dispose();
  return leaves;
}

/** The values of an array as numbers. */
export function numbers({ dtype, data }: HostArray): Float32Array | Float64Array {
  return isFloat(dtype) ? decodeArray(dtype, data) : Float64Array.from(data as ArrayLike<number>, Number);
}

/** The bits of an array's elements, NaN made one. Signs of zeros count. */
export function bits(array: HostArray): number[] {
  const { data } = array;
  if (data instanceof Float32Array) {
    const raw = new Uint32Array(data.buffer, data.byteOffset, data.length);
    return Array.from(raw, (b, i) => (Number.isNaN(data[i]) ? 0x7fc00000 : b));
  }
  return Array.from(data as ArrayLike<number>, Number);
}

/** Indices where two arrays differ in any bit. */
export function differences(a: HostArray, b: HostArray): number[] {
  const [x, y] = [bits(a), bits(b)];
  return x.flatMap((value, i) => (value === y[i] ? [] : [i]));
}

/** Values rounded to a 16- or 32-bit float dtype, as a host array. */
export function floats(shape: readonly number[], dtype: DType, f: (i: number) => number): HostArray {
  const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i));
  return fromNumbers(shape, dtype, values);
}

export function fromNumbers(shape: readonly number[], dtype: DType, values: Float32Array): HostArray {
  if (dtype === "float32") return hostArray(shape, dtype, values);
  const raw = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const codes = Uint16Array.from(raw, (b) => (b + 0x7fff + ((b >>> 16) & 1)) >>> 16);
  return hostArray(shape, dtype, codes);
}

/** A stream of normally distributed numbers, the same for the same seed. */
export function normals(seed: number): () => number {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Largest |a − b| over the largest |b|. */
export function relativeToMax(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [worst, largest] = [0, 0];
  for (let i = 0; i < b.length; i++) {
    worst = Math.max(worst, Math.abs(a[i]! - b[i]!));
    largest = Math.max(largest, Math.abs(b[i]!));
  }
  return worst / largest;
}
