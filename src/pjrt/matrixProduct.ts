/** One matrix product as a StableHLO program, for probes and measurements. */

/** y = a · b of row-major matrices. */
export interface Product {
  /** Of the operands. */
  readonly dtype: "bf16" | "f32";
  readonly m: number;
  readonly k: number;
  readonly n: number;
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
  readonly out: "f32" | "bf16";
}

const operandTypes = ({ m, k, n, transposeA, transposeB, dtype, out }: Product) => ({
  a: `tensor<${transposeA ? `${k}x${m}` : `${m}x${k}`}x${dtype}>`,
  b: `tensor<${transposeB ? `${n}x${k}` : `${k}x${n}`}x${dtype}>`,
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

/** By XLA's own dot. */
export function dotProgram(product: Product): string {
  const [left, right] = [product.transposeA ? 0 : 1, product.transposeB ? 1 : 0];
  return program(product, `stablehlo.dot_general %a, %b, contracting_dims = [${left}] x [${right}]`);
}

/** By oneDNN's product, an internal call of XLA's CPU compiler. */
export function oneDnnProgram(product: Product): string {
  const { transposeA = false, transposeB = false } = product;
  const config = `{\\22onednn_matmul_config\\22: {\\22transpose_a\\22: ${transposeA}, \\22transpose_b\\22: ${transposeB}}}`;
  const rowMajor = "dense<[1, 0]> : tensor<2xindex>";
  return program(
    product,
    `stablehlo.custom_call @__onednn$matmul(%a, %b) {api_version = 2 : i32, backend_config = "${config}", operand_layouts = [${rowMajor}, ${rowMajor}], result_layouts = [${rowMajor}]}`,
  );
}
