import { describe, expect, it } from "vitest";
import { type HostArray, hostArray, interpret, type Tensor } from "../../src/core/index.ts";
import { type LossScaleSettings, type LossScaleState, nextLossScale } from "../../src/optim/index.ts";

const settings: LossScaleSettings = {
  initial: 65536,
  minimum: 1024,
  growthFactor: 2,
  backoffFactor: 0.5,
  growthInterval: 3,
};

/** [scale, good steps] after a step of the given health. */
function scaleAfter(scale: number, goodSteps: number, health: "good" | "overflow" | "fault", changes = {}): number[] {
  const flag = (value: boolean) => hostArray([], "bool", Uint8Array.of(Number(value)));
  const state = {
    scale: hostArray([], "float32", Float32Array.of(scale)),
    goodSteps: hostArray([], "int32", Int32Array.of(goodSteps)),
  };
  const f = (state: LossScaleState, lossIsFinite: Tensor, allFinite: Tensor) =>
    nextLossScale({ ...settings, ...changes }, state, { lossIsFinite, allFinite });
  const next = interpret(f, state, flag(health !== "fault"), flag(health === "good"));
  const { scale: s, goodSteps: g } = next as LossScaleState<HostArray>;
  return [Number(s.data[0]), Number(g.data[0])];
}

describe("the loss scale", () => {
  it("doubles after the third good step in a row", () => {
    expect(scaleAfter(65536, 0, "good")).toEqual([65536, 1]);
    expect(scaleAfter(65536, 1, "good")).toEqual([65536, 2]);
    expect(scaleAfter(65536, 2, "good")).toEqual([131072, 0]);
  });

  it("halves where gradients overflow, to its minimum, and counts good steps anew", () => {
    expect(scaleAfter(65536, 2, "overflow")).toEqual([32768, 0]);
    expect(scaleAfter(1024, 2, "overflow")).toEqual([1024, 0]);
  });

  it("stays where the loss itself is not finite: no scale helps", () => {
    expect(scaleAfter(65536, 2, "fault")).toEqual([65536, 2]);
  });

  it("does not grow beyond float32", () => {
    expect(scaleAfter(2 ** 127, 2, "good")).toEqual([2 ** 127, 3]);
  });

  it.each([
    [{ minimum: 0 }, /the minimum must be a positive number; got 0/],
    [{ initial: 1 }, /the first scale must be at least the minimum, 1024; got 1/],
    [{ growthFactor: 1 }, /the growth factor must be above 1; got 1/],
    [{ backoffFactor: 1 }, /the backoff factor must be between 0 and 1; got 1/],
    [{ growthInterval: 0.5 }, /the growth interval must be 1 or more; got 0.5/],
  ])("refuses %o", (changes, message) => {
    expect(() => scaleAfter(65536, 0, "good", changes)).toThrow(message);
  });
});
