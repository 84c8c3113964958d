/** Stochastic rounding's statistics: no bias in any cell of any format's grid, nor, with gain 17/16, in a whole quantizer. */
import { describe, expect, it } from "vitest";
import { scan } from "../../src/autodiff/index.ts";
import { decodeArray } from "../../src/core/codecs.ts";
import { full, type HostArray, hostArray, iota, type Tensor } from "../../src/core/index.ts";
import { randomBits16 } from "../../src/core/random.ts";
import {
  dequantize,
  type ElementName,
  formats,
  type QuantizedOperand,
  quantize,
  roundStochastic,
  streamAt,
} from "../../src/quant/index.ts";
import { compiledFunction, fromNumbers, normals, numbers } from "./bothWays.ts";

const numDraws = 2 ** 20;

/** Non-negative values of a format, in order. */
function gridOf(element: ElementName): number[] {
  const { dtype, max } = formats[element];
  if (dtype === undefined) return Array.from({ length: max + 1 }, (_, i) => i);
  const codes = Uint8Array.from({ length: dtype === "float4_e2m1fn" ? 8 : 128 }, (_, code) => code);
  return Array.from(decodeArray(dtype, codes)).filter(Number.isFinite);
}

describe("2^20 draws have no bias in any cell", () => {
  it.each<[ElementName, number]>([
    ["e2m1", 16],
    ["e2m1", 8],
    ["int4", 16],
    ["e4m3", 16],
    ["e5m2", 16],
  ])("of %s with %i random bits", async (element, bits) => {
    const format = formats[element];
    const grid = gridOf(element);
    const upCounts = compiledFunction((xs: Tensor, cells: Tensor, step: Tensor) => {
      const place = { module: "mlp.up", layer: 0, gemm: "dgrad", operand: "left" } as const;
      const draws = streamAt({ seed: 1, step, microBatch: 0 }, place);
      const count = (_: Tensor, { x, cell }: { x: Tensor; cell: Tensor }) => {
        const counters = iota([numDraws], 0, "uint32").add(cell.mul(numDraws));
        const rounded = roundStochastic(x.broadcastTo([numDraws]), format, randomBits16(draws, counters), bits);
        return { carry: full([], 0, "int32"), y: rounded.abs().gt(x.abs()).astype("int32").sum() };
      };
      return scan(count, full([], 0, "int32"), { x: xs, cell: cells }).ys;
    });
    const cells = Uint32Array.from({ length: grid.length - 1 }, (_, cell) => cell);
    let worst = 0;
    for (const [step, fraction] of [1 / 3, 1 - 2 ** -6, 0.5 + 2 ** -12, 2 ** -16].entries()) {
      const xs = Float32Array.from(cells, (cell) => {
        const [low, high] = [grid[cell]!, grid[cell + 1]!];
        return (cell % 2 === 0 ? 1 : -1) * (low + fraction * (high - low));
      });
      const arrays = [hostArray([cells.length], "float32", xs), hostArray([cells.length], "uint32", cells)];
      const [ups] = await upCounts(...arrays, hostArray([], "uint32", Uint32Array.of(step)));
      for (const cell of cells) {
        const [low, high] = [grid[cell]!, grid[cell + 1]!];
        // The rule cuts the probability to as many bits as are drawn.
        const p = Math.floor(((Math.abs(xs[cell]!) - low) / (high - low)) * 2 ** bits) / 2 ** bits;
        if (p === 0) {
          expect(ups!.data[cell]).toBe(0);
          continue;
        }
        const standardErrors = ((ups!.data[cell] as number) - numDraws * p) / Math.sqrt(numDraws * p * (1 - p));
        worst = Math.max(worst, Math.abs(standardErrors));
      }
    }
    expect(worst).toBeLessThan(4);
    // Enough of them that the worst is well away from 0.
    expect(worst).toBeGreaterThan(1);
  });
});

describe("a whole quantizer", () => {
  const numPatterns = 64;
  const repeats = 4096;
  const next = normals(21);
  const pattern = Float32Array.from({ length: numPatterns * 16 }, () => next());
  const x: HostArray = fromNumbers(
    [numPatterns * repeats, 16],
    "bfloat16",
    Float32Array.from({ length: numPatterns * repeats * 16 }, (_, i) => pattern[i % pattern.length]!),
  );

  /** Of each pattern's elements, the mean error of `repeats` draws in its standard errors, away from zero positive. */
  async function biases(gain: number): Promise<number[]> {
    const scale = { type: "e4m3", outer: "tensor", ...(gain !== 1 && { gain }) } as const;
    const operand: QuantizedOperand = { element: "e2m1", block: "1x16", rounding: "stochastic", scale };
    const f = compiledFunction((x: Tensor) => {
      const place = { module: "mlp.up", layer: 0, gemm: "dgrad", operand: "left" } as const;
      const draws = streamAt({ seed: 1, step: 0, microBatch: 0 }, place);
      const quantized = quantize(x, operand, { axis: "row", draws });
      const error = dequantize(quantized, operand).sub(x.astype("float32"));
      // What an element of 1 decodes to.
      const unit = dequantize({ ...quantized, elements: quantized.elements.mul(0).add(1) }, operand);
      return [error.reshape([repeats, numPatterns * 16]).mean(0), unit.narrow(0, 0, numPatterns)];
    });
    const [mean, units] = (await f(x)).map(numbers);
    const values = numbers(x);
    return Array.from(mean!, (error, i) => {
      const scaled = Math.min(Math.abs(values[i]!) / units![i]!, 6);
      const step = scaled < 2 ? 0.5 : scaled < 4 ? 1 : 2;
      const p = (scaled / step) % 1;
      // Probabilities are multiples of 2^-16, so no variance is known to be smaller.
      const standardError = step * units![i]! * Math.sqrt(Math.max(p * (1 - p), 2 ** -16) / repeats);
      return (Math.sign(values[i]!) * error) / standardError;
    });
  }

  it("has no bias with gain 17/16: its elements' biases are standard normal", async () => {
    const z = await biases(17 / 16);
    expect(Math.max(...z.map(Math.abs))).toBeLessThan(4.9);
    const sum = z.reduce((a, b) => a + b, 0) / Math.sqrt(z.length);
    expect(Math.abs(sum)).toBeLessThan(4);
    expect(Math.abs(z.reduce((a, b) => a + b * b, 0) / z.length - 1)).toBeLessThan(0.3);
  });

  it("has one with gain 1: block maxima beyond 6 saturate", async () => {
    const z = await biases(1);
    expect(Math.min(...z)).toBeLessThan(-100);
    // It always makes them smaller.
    expect(Math.max(...z)).toBeLessThan(4.9);
  });
});
