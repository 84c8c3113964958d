import { describe, expect, it } from "vitest";
import { grad } from "../../src/autodiff/index.ts";
import type { CustomCallOptions, HostArray } from "../../src/core/index.ts";
import { customCall, hostArray, interpret, showProgram, spec, type Tensor, trace } from "../../src/core/index.ts";
import { lowerToStableHlo } from "../../src/lower/index.ts";

const vector = spec([3], "float32");
const x = hostArray([3], "float32", Float32Array.of(1, 2, 3));
const doubled: CustomCallOptions["interpret"] = ([a]) => [
  hostArray(
    a!.shape,
    "float32",
    (a!.data as Float32Array).map((v) => 2 * v),
  ),
];
const call =
  (options: Partial<CustomCallOptions> = {}) =>
  (t: Tensor) =>
    customCall("vendor.double", [t], [t], { interpret: doubled, ...options })[0]!;

describe("a custom call", () => {
  it("is interpreted by its TypeScript, and differentiated by its own rule", () => {
    expect(interpret(call(), x).data).toEqual(Float32Array.of(2, 4, 6));
    const f = call({ vjp: ({ cts: [ct] }) => [ct!.mul(2)] });
    expect(interpret((t: Tensor) => grad((t: Tensor) => f(t).mul(t).sum())(t), x).data).toEqual(
      Float32Array.of(4, 8, 12),
    );
  });

  it("hands its configuration over as attributes or as a string, and says row-major", () => {
    const text = (options: Partial<CustomCallOptions>) => lowerToStableHlo(trace(call(options), vector));
    const attributes = { eps: 1e-5, half: 0.5, axis: 1, ok: true, name: 'a"b\\c' };
    expect(text({ config: attributes })).toContain(
      '{call_target_name = "vendor.double", api_version = 4 : i32, backend_config = {"eps" = 1.0e-5 : f64, "half" = 5.0e-1 : f64, "axis" = 1 : i64, "ok" = true, "name" = "a\\22b\\5Cc"}, operand_layouts = [dense<[0]> : tensor<1xindex>], result_layouts = [dense<[0]> : tensor<1xindex>]}',
    );
    expect(text({ config: "fast" })).toContain('api_version = 2 : i32, backend_config = "fast"');
    expect(showProgram(trace(call({ config: "fast" }), vector))).toContain("custom_call[vendor.double fast] a");
  });

  it("says what is missing or wrong", () => {
    const gradient = (options: Partial<CustomCallOptions>) => () =>
      trace((t: Tensor) => grad((t: Tensor) => call(options)(t).sum())(t), vector);
    expect(gradient({})).toThrow(
      "customCall vendor.double: it has no vjp; give one, or keep derivatives out with stopGradient",
    );
    expect(gradient({ vjp: ({ cts: [ct] }) => [ct!.sum()] })).toThrow(
      "customCall vendor.double: the cotangent of input 0 must be float32[3]; got float32[]",
    );
    expect(() => interpret(call({ interpret: ([a]) => [a, a] as HostArray[] }), x)).toThrow(
      "customCall vendor.double: interpret must give float32[3]; it gave float32[3], float32[3]",
    );
    expect(() => trace((t: Tensor) => customCall("v", [t], [t], {} as never)[0]!, vector)).toThrow(
      "customCall v: needs `interpret`, the same computation in TypeScript",
    );
  });
});
