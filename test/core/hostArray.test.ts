import { describe, expect, it } from "vitest";
import { hostArray } from "../../src/core/index.ts";

describe("hostArray", () => {
  it("is the values with their shape, empty or scalar too", () => {
    const data = new Float32Array(6);
    expect(hostArray([2, 3], "float32", data)).toEqual({ shape: [2, 3], dtype: "float32", data });
    expect(hostArray([0, 3], "float32", new Float32Array(0)).shape).toEqual([0, 3]);
    expect(hostArray([], "int32", new Int32Array(1)).shape).toEqual([]);
  });

  it.each([
    [[-1], 1],
    // The product is the length: each dimension counts.
    [[-2, -3], 6],
    [[1.5, 2], 3],
    [[Number.NaN], 1],
    [[Number.POSITIVE_INFINITY], 1],
  ])("refuses the shape %j", (shape, length) => {
    expect(() => hostArray(shape, "float32", new Float32Array(length))).toThrow(
      expect.objectContaining({
        code: "E_HOST_ARRAY",
        message: `float32[${shape.join(",")}] is no shape: its dimensions must be whole numbers of 0 or more`,
      }),
    );
  });

  it("refuses values of another number or type", () => {
    expect(() => hostArray([2], "float32", new Float32Array(3))).toThrow("needs a Float32Array of 2 values");
    expect(() => hostArray([2], "float32", new Int32Array(2))).toThrow("got a Int32Array of 2");
  });
});
