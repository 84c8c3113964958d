/** Delayed scaling's update against golden data, in both evaluators, and what it refuses. */
import { describe, expect, it } from "vitest";
import { encodeArray } from "../../src/core/codecs.ts";
import { type HostArray, hostArray, type Tensor } from "../../src/core/index.ts";
import { checkPrecision } from "../../src/quant/checkPrecision.ts";
import {
  bf16,
  type DelayedScale,
  type DelayedScalingState,
  delayedScalingOf,
  type ElementName,
  formats,
  initialDelayedScaling,
  type LinearPrecision,
  largerMagnitudes,
  nextDelayedScaling,
  quantize,
  type RoundedOperand,
} from "../../src/quant/index.ts";
import { golden, goldenJson } from "../golden.ts";
import { bits, compiled, compiledFunction, floats, interpreted, numbers } from "./bothWays.ts";

const cases = await golden("13_fp8_delayed/cases");
const { sequences, configs, steps } = goldenJson<{ sequences: string[]; configs: string[]; steps: number }>(
  "13_fp8_delayed/index",
);

const operandOf = (element: ElementName, scale: Omit<DelayedScale, "type">): RoundedOperand => ({
  element,
  rounding: "nearest",
  block: "tensor",
  scale: { type: "delayed", ...scale },
});

const precisionOf = (operand: RoundedOperand): LinearPrecision => {
  const gemm = { rotation: "none", left: operand, right: operand } as const;
  return { fprop: gemm, dgrad: gemm, wgrad: gemm };
};

function parse(config: string): Omit<DelayedScale, "type"> {
  const [, length, algorithm, margin] = /^len(\d+)\.(max|most_recent)\.margin(\d+)$/.exec(config)!;
  return {
    historyLength: Number(length),
    algorithm: algorithm as DelayedScale["algorithm"],
    margin: Number(margin),
  };
}

/** Codes with all NaN made one. */
function codesOf(element: ElementName, codes: HostArray["data"]): number[] {
  const isNan = (code: number) => (element === "e4m3" ? (code & 0x7f) === 0x7f : (code & 0x7f) > 0x7c);
  return Array.from(codes as Uint8Array, (code) => (isNan(code) ? 0x7f : code));
}

/** One layer of one module, whose x is quantized; W and dy see the same magnitudes. */
function stepUnderTest(element: ElementName, config: string) {
  const operand = operandOf(element, parse(config));
  const scaling = delayedScalingOf([[precisionOf(operand)]])!;
  const f = (x: Tensor, state: DelayedScalingState) => {
    const { elements, amax } = quantize(x, operand, { axis: "row", inForce: state.scales.at(0, 0).at(0, 0).at(0, 0) });
    const next = nextDelayedScaling(state, { amax: amax!.broadcastTo([1, 1, 3]) }, scaling);
    return [elements, amax, next.scales, next.history];
  };
  return { element, config, initial: initialDelayedScaling(scaling), f, compiled: compiledFunction(f) };
}

const units = (["e4m3", "e5m2"] as const).flatMap((element) => configs.map((config) => stepUnderTest(element, config)));

describe("delayed scaling meets golden data exactly", () => {
  it.each(sequences)("%s", async (sequence) => {
    const input = cases.get(`${sequence}/input`);
    const [, M, N] = input.shape as [number, number, number];
    const inputAt = (step: number) =>
      hostArray([M, N], "float32", (input.data as Float32Array).slice(step * M * N, (step + 1) * M * N));
    for (const { element, config, initial, f, compiled } of units) {
      const key = `${sequence}/${element}.${config}`;
      const codes = cases.get(`${key}.q`).data as Uint8Array;
      for (const run of [async (...args: unknown[]) => interpreted(f, ...args), compiled]) {
        let state = initial;
        for (let step = 0; step < steps; step++) {
          const scale = bits(cases.get(`${key}.scale`))[step];
          expect({ key, step, scale: bits(state.scales) }).toEqual({ key, step, scale: [scale, scale, scale] });
          const [elements, amax, scales, history] = (await run(inputAt(step), state)) as [
            HostArray,
            HostArray,
            HostArray,
            HostArray,
          ];
          // Compiled code takes denormal elements for 0.
          const isDenormal = run === compiled && sequence.includes("denormal");
          if (!isDenormal) {
            const found = codesOf(element, encodeArray(formats[element].dtype!, numbers(elements)));
            const wanted = codesOf(element, codes.slice(step * M * N, (step + 1) * M * N));
            expect({ key, step, found }).toEqual({ key, step, found: wanted });
          }
          expect({ key, step, amax: bits(amax)[0] }).toEqual({
            key,
            step,
            amax: bits(cases.get(`${sequence}/amax`))[step],
          });
          state = { scales, history };
          if (!cases.has(`${key}.history`)) continue;
          const row = bits(cases.get(`${key}.history`)).slice(4 * step, 4 * step + 4);
          expect({ key, step, history: bits(history) }).toEqual({ key, step, history: [...row, ...row, ...row] });
        }
        const last = bits(cases.get(`${key}.scale`))[steps];
        expect({ key, last: bits(state.scales)[0] }).toEqual({ key, last });
      }
    }
  });
});

const scale = (changes: Partial<DelayedScale> = {}): Omit<DelayedScale, "type"> => ({
  historyLength: 4,
  algorithm: "max",
  margin: 0,
  ...changes,
});

describe("the state of several layers", () => {
  it("holds the scales of the delayed tensors; those of others stay, each by its own rule", async () => {
    const perTensor: LinearPrecision = {
      fprop: { rotation: "none", left: operandOf("e4m3", scale()), right: { element: "plain" } },
      dgrad: { rotation: "none", left: operandOf("e5m2", scale({ margin: 2 })), right: { element: "plain" } },
      wgrad: { rotation: "none", left: { element: "plain" }, right: { element: "plain" } },
    };
    const scaling = delayedScalingOf([
      [bf16, perTensor],
      [precisionOf(operandOf("e4m3", scale({ algorithm: "most_recent" }))), bf16],
    ])!;
    const initial = initialDelayedScaling(scaling);
    const amax = floats([2, 2, 3], "float32", (i) => i + 1);
    const less = floats([2, 2, 3], "float32", (i) => (i + 1) / 2);
    const f = (amax: Tensor, less: Tensor, state: DelayedScalingState) => {
      const { scales, history } = nextDelayedScaling(
        nextDelayedScaling(state, { amax }, scaling),
        { amax: less },
        scaling,
      );
      return [scales, history];
    };
    for (const [scales, history] of [interpreted(f, amax, less, initial), await compiled(f, amax, less, initial)] as [
      HostArray,
      HostArray,
    ][]) {
      const wanted = [1, 1, 1, 448 / 4, 1, 57344 / 6 / 4, 448 / 3.5, 448 / 4, 448 / 4.5, 1, 1, 1].map(Math.fround);
      expect([...numbers(scales)]).toEqual(wanted);
      const row = (i: number) => [...numbers(history)].slice(4 * i, 4 * i + 4);
      expect([row(0), row(3), row(4), row(6)]).toEqual([
        [0, 0, 0, 0],
        [0, 0, 4, 2],
        [0, 0, 0, 0],
        [0, 0, 7, 3.5],
      ]);
    }
  });

  it("a history of one step is the step's own magnitude", () => {
    const scaling = delayedScalingOf([[precisionOf(operandOf("e4m3", scale({ historyLength: 1 })))]])!;
    const f = (amax: Tensor, state: DelayedScalingState) => nextDelayedScaling(state, { amax }, scaling);
    const [scales, history] = interpreted(
      f,
      floats([1, 1, 3], "float32", () => 7),
      initialDelayedScaling(scaling),
    );
    expect([[...numbers(scales!)], [...numbers(history!)]]).toEqual([
      [64, 64, 64],
      [0, 0, 0],
    ]);
  });

  it("is none where no scale is delayed", () => {
    expect(delayedScalingOf([[bf16]])).toBe(undefined);
  });

  it("refuses histories of different lengths", () => {
    const [four, eight] = [4, 8].map((historyLength) => precisionOf(operandOf("e4m3", scale({ historyLength }))));
    expect(() => delayedScalingOf([[four!], [eight!]])).toThrow(/one historyLength; got 4, 8/);
    const mixed = { ...four!, dgrad: { ...four!.dgrad, left: operandOf("e5m2", scale({ historyLength: 8 })) } };
    const wgrad = { ...four!.wgrad, left: operandOf("e5m2", scale({ historyLength: 8 })) };
    expect(() => checkPrecision({ ...mixed, wgrad } as LinearPrecision)).toThrow(
      /left operand of dgrad: .*one historyLength; got 4 and 8/,
    );
  });
});

describe("the larger of magnitudes", () => {
  it("is NaN where one of them is, in both evaluators", async () => {
    const a = floats([4], "float32", (i) => [1, Number.NaN, Infinity, 3][i]!);
    const b = floats([4], "float32", (i) => [2, 5, Number.NaN, 0][i]!);
    for (const [larger] of [interpreted(largerMagnitudes, a, b), await compiled(largerMagnitudes, a, b)])
      expect([...numbers(larger!)]).toEqual([2, Number.NaN, Number.NaN, 3]);
  });
});
