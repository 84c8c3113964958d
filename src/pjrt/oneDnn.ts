/** Whether the plugin has oneDNN's matrix product behind an internal custom call, and gives the right results by it. */
import { type InstructionSet, includesSet, processorMode } from "../base/processorMode.ts";
import { hostArray } from "../core/hostArray.ts";
import type { Client } from "./client.ts";
import { oneDnnWanted } from "./environmentChoices.ts";
import type { Executable } from "./executable.ts";
import { oneDnnProgram, type Product } from "./matrixProduct.ts";
import { put } from "./transfers.ts";

/** For which operands `__onednn$matmul` exists and is right. */
export interface OneDnn {
  readonly bfloat16: boolean;
  readonly float32: boolean;
}

const none: Promise<OneDnn> = Promise.resolve({ bfloat16: false, float32: false });
const probed = new WeakMap<Client, Promise<OneDnn>>();

/**
 * Tries `__onednn$matmul`, plain and transposed, with each dtype. It is an internal target of XLA's CPU compiler, so it is
 * tried once per client; where it is absent or wrong, or HALFBYTE_ONEDNN is off, dots do the same.
 * @throws UserError where HALFBYTE_ONEDNN is none of its choices
 */
export function probeOneDnn(client: Client): Promise<OneDnn> {
  let answer = probed.get(client);
  if (answer === undefined) {
    answer = client.platformName === "cpu" && oneDnnWanted() ? tryOneDnn(client) : none;
    probed.set(client, answer);
  }
  return answer;
}

/**
 * Without BF16 products in AVX-512 or AMX the library has no fast BF16 kernel: with AVX-512 alone it falls back on one that is
 * hundreds of times as slow, below that its refusal ends the process. In float32 it is fast from AVX2 on.
 */
async function tryOneDnn(client: Client): Promise<OneDnn> {
  const mode = processorMode();
  const size = { m: 16, k: 32, n: 48 };
  const allRight = async (least: InstructionSet, products: readonly Product[]) => {
    if (mode === undefined || !includesSet(mode.oneDnn, least)) return false;
    for (const product of products) if (!(await isRight(client, product))) return false;
    return true;
  };
  const bfloat16 = await allRight("avx512-bf16", [
    { ...size, dtype: "bf16", out: "f32" },
    { ...size, dtype: "bf16", out: "bf16" },
    { ...size, dtype: "bf16", out: "f32", transposeA: true },
    { ...size, dtype: "bf16", out: "bf16", transposeB: true },
  ]);
  const float32 = await allRight("avx2", [
    { ...size, dtype: "f32", out: "f32" },
    { ...size, dtype: "f32", out: "f32", transposeA: true },
    { ...size, dtype: "f32", out: "f32", transposeB: true },
  ]);
  return { bfloat16, float32 };
}

async function isRight(client: Client, product: Product): Promise<boolean> {
  const { m, k, n, transposeA, transposeB, dtype, out } = product;
  let compiled: Executable;
  try {
    compiled = await client.compile(oneDnnProgram(product));
  } catch {
    return false;
  }
  // A factor of 16 significant bits shows whether float32 operands are rounded to fewer; the sums stay exact.
  const factor = dtype === "f32" ? 2 ** 15 + 1 : 1;
  const a = wholeMatrix(client, { rows: transposeA ? k : m, columns: transposeA ? m : k, dtype, factor });
  const b = wholeMatrix(client, { rows: transposeB ? n : k, columns: transposeB ? k : n, dtype, factor: 1 });
  const at = (i: number, l: number) => a.values[transposeA ? l * m + i : i * k + l]!;
  const bt = (l: number, j: number) => b.values[transposeB ? j * k + l : l * n + j]!;
  try {
    const { outputs, done } = await compiled.execute([a.array, b.array]);
    await done;
    const { data } = await outputs[0]!.toHost();
    outputs[0]!.dispose();
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let l = 0; l < k; l++) sum += at(i, l) * bt(l, j);
        // Sums beyond 8 bits round to BF16; to nearest even, as everywhere.
        const expected = out === "f32" ? sum : roundedBf16Bits(sum);
        if (data[i * n + j] !== expected) return false;
      }
    }
    return true;
  } catch {
    return false;
  } finally {
    a.array.dispose();
    b.array.dispose();
    compiled.dispose();
  }
}

interface WholeMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly dtype: Product["dtype"];
  readonly factor: number;
}

/** A matrix of whole numbers from -4 to 4, times a factor, whose products and sums are exact in any order. */
function wholeMatrix(client: Client, { rows, columns, dtype, factor }: WholeMatrix) {
  const values = Float32Array.from(
    { length: rows * columns },
    (_, i) => (((i * 7 + Math.floor(i / columns) * 3) % 9) - 4) * factor,
  );
  const shape = [rows, columns];
  const host = dtype === "f32" ? hostArray(shape, "float32", values) : hostArray(shape, "bfloat16", bf16Bits(values));
  return { values, array: put(host, client) };
}

/** The BF16 patterns of whole numbers of at most 8 bits, which are exact. */
const bf16Bits = (values: Float32Array) => new Uint16Array(values.buffer.slice(0)).filter((_, i) => i % 2 === 1);

function roundedBf16Bits(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}
