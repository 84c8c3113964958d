/** The native loss, RMSNorm, SwiGLU and gradient norm against the plain lowering, with each instruction set of this machine. */
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { vjp } from "../../src/autodiff/index.ts";
import { full, type HostArray, hostArray, interpret, type Tensor, toValues, treeLeaves } from "../../src/core/index.ts";
import { crossEntropy, rmsNorm, swiglu } from "../../src/nn/index.ts";
import { clipByGlobalNorm } from "../../src/optim/index.ts";
import { difference, type FloatName, kernelClients, random, run, sameBits } from "./kernelClients.ts";

const clients = await kernelClients();

afterAll(async () => {
  for (const client of [clients?.plain, ...(clients?.native.values() ?? [])]) await client?.destroy();
});

type Layer = (...args: Tensor[]) => readonly Tensor[];

/** Of the largest value: sums in another order, and for bfloat16 one rounding that falls the other way. */
const tolerance = { float32: 3e-6, bfloat16: 2 ** -8 } as const;

/** Compares with the plain lowering and a second run; gives the native results of the best instruction set. */
async function agrees(layer: Layer, inputs: readonly HostArray[], kernels: readonly string[], dtype: FloatName) {
  const plain = await run(clients!.plain, layer, inputs);
  expect(plain.stablehlo).not.toContain("halfbyte_");
  let results: HostArray[] = [];
  for (const client of clients!.native.values()) {
    const native = await run(client, layer, inputs);
    for (const kernel of kernels) expect(native.stablehlo).toContain(kernel);
    native.results.forEach((x, i) => {
      expect(difference(x, plain.results[i]!)).toBeLessThan(tolerance[dtype]);
    });
    expect(sameBits((await run(client, layer, inputs)).results, native.results)).toBe(true);
    results = native.results;
  }
  return results;
}

const withGradient =
  (f: (...args: Tensor[]) => Tensor): Layer =>
  (...[ct, ...args]) => {
    const { out, pullback } = vjp(f, ...args);
    return [out, ...pullback(ct!)];
  };

const dtypes = fc.constantFrom<FloatName>("float32", "bfloat16");

/** The loss with the gradients of hidden states and head. */
const lossOf =
  (zLoss: number): Layer =>
  (hidden, head, targets, weights) => {
    const sum = (hidden: Tensor, head: Tensor) =>
      crossEntropy({ hidden, head, targets: targets!, weights: weights!, zLoss }).lossSum;
    const { out, pullback } = vjp(sum, hidden!, head!);
    return [out, ...pullback(full([], 1, "float32"))];
  };

function lossInputs(rows: number, vocabulary: number, dtype: FloatName): HostArray[] {
  const targets = Int32Array.from({ length: rows }, (_, i) => (i * 7) % vocabulary);
  const weights = Float32Array.from({ length: rows }, (_, i) => (i % 3 === 1 ? 0 : 1));
  return [
    random([rows, 32], dtype, 1),
    random([vocabulary, 32], "float32", 2),
    hostArray([rows], "int32", targets),
    hostArray([rows], "float32", weights),
  ];
}

describe.skipIf(clients === undefined)("native layers give what the plain lowering gives", () => {
  it("the loss, of any vocabulary, with weights of 0 and a z-loss", () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 2, max: 300 }),
        fc.constantFrom(0, 1e-2),
        dtypes,
        async (rows, vocabulary, zLoss, dtype) => {
          await agrees(lossOf(zLoss), lossInputs(rows, vocabulary, dtype), ["halfbyte_softmax_loss"], dtype);
        },
      ),
      { numRuns: 5, seed: 3 },
    ));

  it("the loss of a row that is not finite, and of one that does not count", async () => {
    const inputs = lossInputs(6, 50, "float32");
    const hidden = inputs[0]!.data as Float32Array;
    hidden[0] = Number.NaN;
    const [sum, dHidden] = await agrees(lossOf(0), inputs, ["halfbyte_softmax_loss"], "float32");
    expect(toValues(sum!).data[0]).toBeNaN();
    expect(Number.isFinite(toValues(dHidden!).data[2 * 32])).toBe(true);
  });

  it("the loss of targets outside the vocabulary: no logit of theirs counts", async () => {
    const [hidden, head] = lossInputs(6, 50, "float32");
    const targets = hostArray([6], "int32", Int32Array.of(-1, 3, -100, 50, 49, 1000));
    for (const weight of [0, 1]) {
      const counted = hostArray([6], "float32", Float32Array.of(weight, 1, weight, weight, 1, weight));
      const inputs = [hidden!, head!, targets, counted];
      const [sum] = await agrees(lossOf(1e-2), inputs, ["halfbyte_softmax_loss"], "float32");
      const [wanted] = treeLeaves<HostArray>(interpret(lossOf(1e-2) as never, ...(inputs as never[])));
      expect(difference(sum!, wanted!)).toBeLessThan(tolerance.float32);
    }
  });

  it("the loss without a row that does not count, whatever it holds", async () => {
    const inputs = lossInputs(6, 50, "float32");
    (inputs[0]!.data as Float32Array)[32] = Number.NaN;
    const sumOnly: Layer = (hidden, head, targets, weights) => [
      crossEntropy({ hidden: hidden!, head: head!, targets: targets!, weights: weights! }).lossSum,
    ];
    const [sum] = await agrees(sumOnly, inputs, ["halfbyte_softmax_loss"], "float32");
    expect(toValues(sum!).data[0]).toBeGreaterThan(1);
  });

  it("RMSNorm", () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 1, max: 12 }),
        dtypes,
        async (rows, n, dtype) => {
          const [x, weight] = [random([rows, n * 16], dtype, 1), random([n * 16], "float32", 2)];
          const layer = withGradient((x, w) => rmsNorm(x!, w!, 1e-5));
          const kernels = ["halfbyte_rms_norm_forward", "halfbyte_rms_norm_backward"];
          await agrees(layer, [random([rows, n * 16], dtype, 3), x, weight], kernels, dtype);
        },
      ),
      { numRuns: 5, seed: 3 },
    ));

  it("SwiGLU, also of gates whose exponentials overflow and vanish", () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 12 }),
        dtypes,
        async (rows, n, dtype) => {
          const [gate, up, ct] = [1, 2, 3].map((seed) => random([rows, n * 16], dtype, seed)) as [
            HostArray,
            HostArray,
            HostArray,
          ];
          const large = (x: number) => (dtype === "float32" ? x : new Uint16Array(Float32Array.of(x).buffer)[1]!);
          [-200, 200, -90, 0].forEach((x, i) => {
            (gate.data as Float32Array)[i] = large(x);
          });
          const layer = withGradient((a, b) => swiglu(a!, b!));
          await agrees(layer, [ct, gate, up], ["halfbyte_swiglu_forward", "halfbyte_swiglu_backward"], dtype);
        },
      ),
      { numRuns: 5, seed: 3 },
    ));

  it("the norm of a gradient, beyond what float32 squares hold", async () => {
    const norm: Layer = (...grads) => {
      const { norm, tensorNorms, finite } = clipByGlobalNorm(grads, 1);
      return [norm, tensorNorms, finite.astype("float32")];
    };
    const huge = random([70_001], "float32", 2);
    for (let i = 0; i < huge.data.length; i++) huge.data[i] = Number(huge.data[i]) * 1e30;
    for (const inputs of [[random([3], "float32", 1), random([300, 512], "float32", 4)], [huge]]) {
      const plain = await run(clients!.plain, norm, inputs);
      for (const client of clients!.native.values()) {
        const native = await run(client, norm, inputs);
        expect(native.stablehlo).toContain("halfbyte_sum_of_squares");
        native.results.forEach((x, i) => {
          const [a, b] = [toValues(x).data, toValues(plain.results[i]!).data];
          for (let j = 0; j < b.length; j++) expect(Math.abs(a[j]! / b[j]! - 1)).toBeLessThan(1e-6);
        });
      }
    }
  });
});
