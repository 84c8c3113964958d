/**
 * Whether the plugin has oneDNN's matrix product behind an internal custom call, and how fast BF16 products are here:
 * the peak that model FLOP utilisation is measured against.
 */
import { hostArray } from "../core/hostArray.ts";
import type { Client } from "./client.ts";
import type { DeviceArray } from "./deviceArray.ts";
import type { Executable } from "./executable.ts";
import { put } from "./transfers.ts";

export interface MatrixPeak {
  /** Of one BF16 × BF16 → F32 product on one device, two operations per multiply-add. */
  readonly flopsPerSecond: number;
  /** The form that reached it: oneDNN's custom call or XLA's own dot. */
  readonly form: "onednn" | "dot";
}

interface Product {
  readonly m: number;
  readonly k: number;
  readonly n: number;
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
  readonly out: "f32" | "bf16";
}

const operandTypes = ({ m, k, n, transposeA, transposeB, out }: Product) => ({
  a: `tensor<${transposeA ? `${k}x${m}` : `${m}x${k}`}xbf16>`,
  b: `tensor<${transposeB ? `${n}x${k}` : `${k}x${n}`}xbf16>`,
  y: `tensor<${m}x${n}x${out}>`,
});

function program(product: Product, operation: string): string {
  const { a, b, y } = operandTypes(product);
  return `module @matrix_product {
  func.func public @main(%a: ${a}, %b: ${b}) -> ${y} {
    %y = ${operation} : (${a}, ${b}) -> ${y}
    return %y : ${y}
  }
}`;
}

function dotProgram(product: Product): string {
  const [left, right] = [product.transposeA ? 0 : 1, product.transposeB ? 1 : 0];
  return program(product, `stablehlo.dot_general %a, %b, contracting_dims = [${left}] x [${right}]`);
}

function oneDnnProgram(product: Product): string {
  const { transposeA = false, transposeB = false } = product;
  const config = `{\\22onednn_matmul_config\\22: {\\22transpose_a\\22: ${transposeA}, \\22transpose_b\\22: ${transposeB}}}`;
  const rowMajor = "dense<[1, 0]> : tensor<2xindex>";
  return program(
    product,
    `stablehlo.custom_call @__onednn$matmul(%a, %b) {api_version = 2 : i32, backend_config = "${config}", operand_layouts = [${rowMajor}, ${rowMajor}], result_layouts = [${rowMajor}]}`,
  );
}

/** The BF16 pattern of a whole number of at most 8 bits, which is exact. */
function bf16Bits(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16;
}

/** A matrix of whole numbers from -4 to 4, whose products and sums are exact in any order. */
function wholeMatrix(client: Client, rows: number, columns: number): { values: number[]; array: DeviceArray } {
  const values = Array.from({ length: rows * columns }, (_, i) => ((i * 7 + Math.floor(i / columns) * 3) % 9) - 4);
  const array = put(hostArray([rows, columns], "bfloat16", Uint16Array.from(values, bf16Bits)), client);
  return { values, array };
}

const probed = new WeakMap<Client, Promise<boolean>>();

/**
 * Whether `__onednn$matmul` exists and is right, plain and transposed, with F32 and BF16 output. It is an internal target
 * of XLA's CPU compiler, so it is tried once per client; where this gives false, dots do the same.
 */
export function probeOneDnn(client: Client): Promise<boolean> {
  let answer = probed.get(client);
  if (answer === undefined) {
    answer = client.platformName === "cpu" ? tryOneDnn(client) : Promise.resolve(false);
    probed.set(client, answer);
  }
  return answer;
}

async function tryOneDnn(client: Client): Promise<boolean> {
  const size = { m: 16, k: 32, n: 48 };
  const products: readonly Product[] = [
    { ...size, out: "f32" },
    { ...size, out: "bf16" },
    { ...size, out: "f32", transposeA: true },
    { ...size, out: "bf16", transposeB: true },
  ];
  for (const product of products) {
    if (!(await isRight(client, product))) return false;
  }
  return true;
}

async function isRight(client: Client, product: Product): Promise<boolean> {
  const { m, k, n, transposeA, transposeB, out } = product;
  let compiled: Executable;
  try {
    compiled = await client.compile(oneDnnProgram(product));
  } catch {
    return false;
  }
  const a = transposeA ? wholeMatrix(client, k, m) : wholeMatrix(client, m, k);
  const b = transposeB ? wholeMatrix(client, n, k) : wholeMatrix(client, k, n);
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

function roundedBf16Bits(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Edges of the square products that are timed; each form runs at least twice, then until its time is up. */
const edges = [1024, 2048] as const;
const secondsPerForm = 0.4;

/** The best rate of square BF16 products on the client's first device. Takes a second or two. @throws PjrtError */
export async function measureMatrixPeak(client: Client): Promise<MatrixPeak> {
  const forms: readonly MatrixPeak["form"][] = (await probeOneDnn(client)) ? ["onednn", "dot"] : ["dot"];
  let best: MatrixPeak = { flopsPerSecond: 0, form: "dot" };
  for (const edge of edges) {
    const product: Product = { m: edge, k: edge, n: edge, out: "f32" };
    const array = patternMatrix(client, edge);
    for (const form of forms) {
      const compiled = await client.compile(form === "onednn" ? oneDnnProgram(product) : dotProgram(product));
      let spent = 0;
      for (let run = 0; run < 2 || spent < secondsPerForm; run++) {
        const started = performance.now();
        const { outputs, done } = await compiled.execute([array, array]);
        await done;
        const seconds = (performance.now() - started) / 1000;
        outputs[0]!.dispose();
        spent += seconds;
        const flopsPerSecond = (2 * edge ** 3) / seconds;
        if (flopsPerSecond > best.flopsPerSecond) best = { flopsPerSecond, form };
      }
      compiled.dispose();
    }
    array.dispose();
  }
  return best;
}

/** A square matrix of ordinary values: their size does not matter to the speed, that none is zero or tiny may. */
function patternMatrix(client: Client, edge: number): DeviceArray {
  const data = new Uint16Array(edge * edge);
  for (let i = 0; i < data.length; i++) data[i] = 0x3f80 + (i % 61);
  return put(hostArray([edge, edge], "bfloat16", data), client);
}
