/** What the kernels don't take: parts with other operands are left to the plain lowering, and handlers refuse other calls. */
import { afterAll, describe, expect, it } from "vitest";
import { vjp } from "../../src/autodiff/index.ts";
import { hostArray, type Spec, type Tensor } from "../../src/core/index.ts";
import { kernelTakes } from "../../src/lower/nativeCalls.ts";
import { causalAttention, crossEntropy, rmsNorm, swiglu } from "../../src/nn/index.ts";
import { nativeKernels, put } from "../../src/pjrt/index.ts";
import { kernelClients, random, run, sameBits } from "./kernelClients.ts";

const clients = await kernelClients();

afterAll(async () => {
  for (const client of [clients?.plain, ...(clients?.native.values() ?? [])]) await client?.destroy();
});

const spec = (dtype: Spec["dtype"], ...shape: number[]): Spec => ({ shape, dtype });

interface Kernel {
  readonly inputs: readonly Spec[];
  readonly outputs: readonly Spec[];
  readonly attributes?: string;
}

const [q, k, logSumExp, starts] = [
  spec("bfloat16", 2, 6, 4, 16),
  spec("bfloat16", 2, 6, 2, 16),
  spec("float32", 4, 12, 1),
  spec("int32", 2, 6),
] as const;
const [rows, x, weight] = [spec("float32", 5), spec("bfloat16", 3, 32), spec("float32", 32)] as const;

/** Calls that each kernel takes. */
const calls: Readonly<Record<string, Kernel>> = {
  attention_forward: { inputs: [q, k, k], outputs: [q, logSumExp] },
  attention_backward: { inputs: [q, k, k, q, logSumExp, q], outputs: [q, k, k] },
  segment_attention_forward: { inputs: [q, k, k, starts], outputs: [q, logSumExp] },
  segment_attention_backward: { inputs: [q, k, k, q, logSumExp, q, starts], outputs: [q, k, k] },
  softmax_loss: {
    inputs: [spec("float32", 5, 33), spec("int32", 5), rows],
    outputs: [rows, spec("bfloat16", 5, 33)],
    attributes: "zLoss = 0.0 : f64",
  },
  rms_norm_forward: { inputs: [x, weight], outputs: [x], attributes: "eps = 1.0e-5 : f64" },
  rms_norm_backward: { inputs: [x, weight, x], outputs: [x, weight], attributes: "eps = 1.0e-5 : f64" },
  swiglu_forward: { inputs: [x, x], outputs: [x] },
  swiglu_backward: { inputs: [x, x, x], outputs: [x, x] },
  sum_of_squares: { inputs: [spec("float32", 3, 5)], outputs: [spec("float64")] },
};

/** The call with one operand or result of another shape or dtype. */
function* spoiled({ inputs, outputs, ...rest }: Kernel): Generator<Kernel & { what: string }> {
  const all = [...inputs, ...outputs];
  for (const [i, { shape, dtype }] of all.entries()) {
    // Of one operand, any size is right.
    const free = inputs.length === 1 && i === 0;
    const other: Spec[] = [{ shape, dtype: dtype === "float32" ? "bfloat16" : "float32" }];
    if (!free) {
      other.push({ shape: [...shape, 1], dtype }, { shape: [1, ...shape], dtype });
      for (const dim of shape.keys()) {
        other.push({ shape: shape.map((n, d) => (d === dim ? 2 * n : n)), dtype });
        // XLA drops a call whose only result is empty.
        if (i < inputs.length) other.push({ shape: shape.map((n, d) => (d === dim ? 0 : n)), dtype });
        if (shape[dim]! > 1) other.push({ shape: shape.map((n, d) => (d === dim ? 1 : n)), dtype });
      }
    }
    for (const one of other) {
      const changed = all.map((x, j) => (i === j ? one : x));
      const what = `${i}: ${one.dtype}[${one.shape}]`;
      yield { ...rest, what, inputs: changed.slice(0, inputs.length), outputs: changed.slice(inputs.length) };
    }
  }
}

const elementTypes: Partial<Record<Spec["dtype"], string>> = {
  bfloat16: "bf16",
  float32: "f32",
  float64: "f64",
  int32: "i32",
};
const typeOf = ({ shape, dtype }: Spec): string => `tensor<${[...shape, elementTypes[dtype]].join("x")}>`;

function textOf(name: string, { inputs, outputs, attributes }: Kernel, instructions: number): string {
  const results = outputs.map(typeOf).join(", ");
  const names = inputs.map((_, i) => `%a${i}`);
  const config = [attributes, `instructions = ${instructions} : i64`].filter(Boolean).join(", ");
  const values = outputs.length === 1 ? "%r" : outputs.map((_, i) => `%r#${i}`).join(", ");
  return `module @kernel {
  func.func public @main(${inputs.map((x, i) => `${names[i]}: ${typeOf(x)}`).join(", ")}) -> (${results}) {
    %r${outputs.length === 1 ? "" : `:${outputs.length}`} = stablehlo.custom_call @halfbyte_${name}(${names.join(", ")}) {api_version = 4 : i32, backend_config = {${config}}} : (${inputs.map(typeOf).join(", ")}) -> (${results})
    return ${values} : ${results}
  }
}`;
}

const zerosOf = ({ shape, dtype }: Spec) => {
  const size = shape.reduce((a, b) => a * b, 1);
  if (dtype === "int32") return hostArray(shape, dtype, new Int32Array(size));
  if (dtype === "float64") return hostArray(shape, dtype, new Float64Array(size));
  return random(shape, dtype as "float32", 1);
};

describe("the lowering calls a kernel", () => {
  it.each(Object.entries(calls))("%s for its own signature alone", (name, kernel) => {
    expect(kernelTakes(`halfbyte.${name}`, kernel.inputs, kernel.outputs)).toBe(true);
    for (const { what, inputs, outputs } of spoiled(kernel)) {
      // The gradient's dtype is free.
      const isFree = name === "softmax_loss" && what === "4: float32[5,33]";
      expect([what, kernelTakes(`halfbyte.${name}`, inputs, outputs)]).toEqual([what, isFree]);
    }
  });
});

describe.skipIf(clients === undefined)("a kernel's handler", () => {
  it.each(Object.entries(calls))("%s refuses a call with any other operand or result", async (name, kernel) => {
    const client = [...clients!.native.values()].at(-1)!;
    const found = await nativeKernels(client);
    if (!found.used) throw new Error(found.reason);
    const outcome = async (call: Kernel): Promise<string> => {
      const compiled = await client.compile(textOf(name, call, found.instructions));
      const inputs = call.inputs.map((x) => put(zerosOf(x), client));
      try {
        const { outputs, done } = await compiled.execute(inputs);
        const failed = await done.then(
          () => "done",
          (error: Error) => error.message,
        );
        for (const output of outputs) output.dispose();
        return failed;
      } catch (error) {
        return (error as Error).message;
      } finally {
        for (const input of inputs) input.dispose();
        compiled.dispose();
      }
    };
    expect(await outcome(kernel)).toBe("done");
    for (const { what, ...call } of spoiled(kernel)) {
      if (name === "softmax_loss" && what === "4: float32[5,33]") continue;
      expect([what, await outcome(call)]).toEqual([what, expect.stringContaining("arguments that it does not take")]);
    }
  });
});

describe.skipIf(clients === undefined)("operands that broadcast", () => {
  const gradients =
    (f: (...args: Tensor[]) => Tensor) =>
    (...[ct, ...args]: Tensor[]): readonly Tensor[] => {
      const { out, pullback } = vjp(f, ...args);
      return [out, ...pullback(ct!)];
    };

  it.each([
    [
      [4, 16],
      [1, 16],
    ],
    [
      [1, 16],
      [4, 16],
    ],
    [[4, 16], [16]],
    [
      [4, 16],
      [4, 1],
    ],
    [
      [4, 1, 16],
      [1, 4, 16],
    ],
  ])("in SwiGLU of %j and %j are left to the plain lowering", async (gate, up) => {
    const both = [random(gate, "float32", 1), random(up, "float32", 2)];
    const ct = random(gate.length === 3 ? [4, 4, 16] : [4, 16], "float32", 3);
    for (const client of clients!.native.values()) {
      const [plain, native] = [clients!.plain, client].map((c) =>
        run(
          c,
          gradients((a, b) => swiglu(a!, b!)),
          [ct, ...both],
        ),
      );
      expect((await native!).stablehlo).not.toContain("halfbyte_");
      expect(sameBits((await native!).results, (await plain!).results)).toBe(true);
    }
  });
});

describe("inputs that don't belong together are refused when traced", () => {
  const traced = (f: (...args: Tensor[]) => Tensor, ...shapes: (readonly number[] | Spec)[]) => {
    const args = shapes.map((shape) => ("dtype" in shape ? shape : spec("float32", ...shape)));
    return run(clients!.plain, (...x) => [f(...x)], args.map(zerosOf));
  };
  const attend = (q: Tensor, k: Tensor, v: Tensor) => causalAttention({ q, k, v });

  it.skipIf(clients === undefined).each([
    [[2, 8, 2, 16], [2, 16, 2, 16], [2, 16, 2, 16], "of the same batch, time and dim"],
    [[2, 8, 4, 16], [4, 8, 1, 16], [4, 8, 1, 16], "of the same batch, time and dim"],
    [[2, 8, 2, 16], [2, 8, 2, 16], [2, 16, 2, 16], "k and v must have one shape"],
    [[2, 8, 2, 16], [2, 8, 2, 16], [2, 8, 2, 32], "k and v must have one shape"],
    [[2, 8, 4, 16], [2, 8, 2, 16], [4, 8, 1, 16], "k and v must have one shape"],
    [[2, 8, 2, 16], [2, 8, 2, 16], spec("bfloat16", 2, 8, 2, 16), "one dtype"],
    [[0, 8, 2, 16], [0, 8, 2, 16], [0, 8, 2, 16], "nothing to attend to"],
    [[1, 0, 2, 16], [1, 0, 2, 16], [1, 0, 2, 16], "nothing to attend to"],
    [[1, 8, 2, 16], [1, 8, 0, 16], [1, 8, 0, 16], "nothing to attend to"],
  ] as const)("attention of %j, %j and %j", async (q, k, v, message) => {
    await expect(traced((q, k, v) => attend(q!, k!, v!), q, k, v)).rejects.toThrow(message);
  });

  it.skipIf(clients === undefined).each([[[1]], [[]], [[1, 32]], [[3, 1]], [[3, 32]], [[16]]])(
    "RMSNorm with a weight %j",
    async (weight) => {
      await expect(traced((x, w) => rmsNorm(x!, w!, 1e-5), [3, 32], weight)).rejects.toThrow("x's last dim");
    },
  );

  it.skipIf(clients === undefined).each([
    [[0, 24], [33, 24], 0, 0, "no token to predict"],
    [[5, 24], [0, 24], 5, 5, "no token to predict"],
    [[5, 24], [33, 24], 1, 5, "targets and weights are [tokens]"],
    [[5, 24], [33, 24], 5, 9, "targets and weights are [tokens]"],
    [[5, 24], [33, 16], 5, 5, "targets and weights are [tokens]"],
  ] as const)(
    "the loss of %j, a head %j, %i targets and %i weights",
    async (hidden, head, targets, weights, message) => {
      const loss = (...[hidden, head, targets, weights]: Tensor[]) =>
        crossEntropy({ hidden: hidden!, head: head!, targets: targets!, weights: weights! }).lossSum;
      await expect(traced(loss, hidden, head, spec("int32", targets), [weights])).rejects.toThrow(message);
    },
  );
});
