/** Clients whose programs call the native kernels, one for each instruction set of this machine, and one without. */
import { vi } from "vitest";
import { encodeArray } from "../../src/core/codecs.ts";
import { type HostArray, hostArray, type Tensor, toValues } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { Client, type KernelInstructions, nativeKernels } from "../../src/pjrt/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";

export interface KernelClients {
  readonly plain: Client;
  readonly native: ReadonlyMap<KernelInstructions, Client>;
}

/** Undefined with the reason on the console where there are no kernels: tests then skip. */
export async function kernelClients(): Promise<KernelClients | undefined> {
  const native = new Map<KernelInstructions, Client>();
  for (const name of ["avx2", "avx512", "avx512bf16"] as const) {
    vi.stubEnv("HALFBYTE_NATIVE_ISA", name);
    const client = new Client();
    try {
      const found = await nativeKernels(client);
      if (found.used) native.set(name, client);
      else console.warn(`native kernels are not tested here: ${found.reason}`);
    } catch {
      // This processor has no such instructions.
    }
    vi.unstubAllEnvs();
  }
  return native.size === 0 ? undefined : { plain: new Client({ nativeKernels: "off" }), native };
}

export type FloatName = "float32" | "bfloat16";

export function random(shape: readonly number[], dtype: FloatName, seed: number): HostArray {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Float32Array.from({ length: size }, (_, i) => Math.sin(seed + i * i * 0.37) * 1.5);
  return hostArray(shape, dtype, encodeArray(dtype, values));
}

/** Results of f, compiled for a client; the text that was compiled. */
export async function run(
  client: Client,
  f: (...args: Tensor[]) => readonly Tensor[],
  args: readonly HostArray[],
): Promise<{ results: HostArray[]; stablehlo: string }> {
  const compiled = jit(f, { client });
  const { stablehlo } = await compiled.lower(...args);
  const results = await fetchAndFree<HostArray[]>(compiled(...args));
  compiled.dispose();
  return { results, stablehlo };
}

/** Largest difference relative to the largest value of `wanted`, at least 1; NaN where one of the two alone has one. */
export function difference(got: HostArray, wanted: HostArray): number {
  const [a, b] = [toValues(got).data, toValues(wanted).data];
  let [worst, scale] = [0, 1];
  for (let i = 0; i < b.length; i++) {
    if (Number.isNaN(a[i]) && Number.isNaN(b[i])) continue;
    const here = Math.abs(a[i]! - b[i]!);
    if (Number.isNaN(here)) return Number.NaN;
    worst = Math.max(worst, here);
    scale = Math.max(scale, Math.abs(b[i]!));
  }
  return worst / scale;
}

/** Whether all arrays have the same bits. */
export function sameBits(a: readonly HostArray[], b: readonly HostArray[]): boolean {
  const bytes = ({ data }: HostArray) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return a.length === b.length && a.every((x, i) => bytes(x).equals(bytes(b[i]!)));
}
