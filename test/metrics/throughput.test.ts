import { describe, expect, it } from "vitest";
import {
  bitsPerByte,
  flopsPerToken,
  formatDuration,
  gapPercent,
  matmulParameters,
  meanSourceLosses,
  modelFlopsUtilization,
  stepLine,
  stepRecord,
  stepTimer,
} from "../../src/metrics/index.ts";
import { evalLine } from "../../src/metrics/stepLine.ts";

const llama3of8B = {
  numLayers: 32,
  embDim: 4096,
  mlpDim: 14336,
  numHeads: 32,
  numKvHeads: 8,
  headDim: 128,
  vocabSize: 128256,
};

describe("FLOPs", () => {
  it("of Llama 3 8B at 8,192 tokens are MaxText's and Megatron Bridge's 51.4704 GFLOP a token", () => {
    expect(matmulParameters(llama3of8B)).toBe(7_504_658_432);
    expect(flopsPerToken(llama3of8B, 8192)).toBe(51_470_401_536);
  });

  it("relate to a peak as MFU", () => {
    expect(modelFlopsUtilization(2e11, 4e11)).toBe(0.5);
  });
});

describe("bits per byte", () => {
  it("is the loss of all targets over the bytes they stand for", () => {
    // 100 targets at ln 2 nats are 100 bits; over 50 bytes that is 2.
    expect(bitsPerByte(100 * Math.LN2, 50)).toBeCloseTo(2, 12);
  });

  it("and the gap is relative to the baseline", () => {
    expect(gapPercent(4, 4.1)).toBeCloseTo(2.5, 10);
    expect(gapPercent(4, 3)).toBeCloseTo(-25, 10);
  });
});

describe("stepLine", () => {
  const record = stepRecord(
    { step: 12, seconds: 0.25, validTokens: 4096, loss: 5.12345, gradNorm: 0.98765, learningRate: 3e-4 },
    25_600_000,
  );

  it("is in MaxText's terms and order", () => {
    expect(stepLine(record, 200.4)).toBe(
      "completed step: 12, seconds: 0.250, TFLOP/s/device: 0.419, Tokens/s/device: 16384.000, total_weights: 4096, loss: 5.123, grad_norm: 0.988, lr: 3.000e-4, left: 3 min 20 s",
    );
    expect(stepLine(record)).not.toContain("left");
    expect(stepLine({ ...record, loss: Number.NaN })).toContain("loss: NaN");
  });

  it("tells the loss of each source, over several steps of all its tokens there", () => {
    const books = { source: "books", loss: 3, validTokens: 30 };
    const steps = [
      { sources: [books, { source: "code", loss: 1.5, validTokens: 10 }] },
      { sources: [{ ...books, loss: 4, validTokens: 10 }] },
      {},
    ];
    const sources = meanSourceLosses(steps);
    expect(sources).toEqual([
      { source: "books", loss: 3.25, validTokens: 40 },
      { source: "code", loss: 1.5, validTokens: 10 },
    ]);
    expect(stepLine({ ...record, sources }, 60)).toContain(
      "lr: 3.000e-4, loss of books: 3.250, loss of code: 1.500, left: 1 min",
    );
  });

  it("counts per device", () => {
    const two = stepRecord(record, 25_600_000, 2);
    expect(two.tokensPerSecond).toBe(8192);
    expect(two.tflopsPerSecond).toBeCloseTo(record.tflopsPerSecond / 2, 12);
  });

  it("has a line for validation too", () => {
    expect(evalLine({ step: 80, loss: Math.log(64), bitsPerByte: 1.5, validTokens: 999, seconds: 1.5 })).toBe(
      "eval after step: 80, loss: 4.1589, perplexity: 64.000, bits_per_byte: 1.5000, total_weights: 999, seconds: 1.500",
    );
  });
});

describe("durations", () => {
  it.each([
    [0.04, "0.0 s"],
    [0.44, "0.4 s"],
    [9.96, "10 s"],
    [59.6, "1 min 00 s"],
    [61, "1 min 01 s"],
    [3599.7, "1 h 00 min"],
    [7500, "2 h 05 min"],
    [3 * 86400 + 4 * 3600, "3 d 04 h"],
    [-1, "0.0 s"],
    [Number.NaN, "?"],
  ])("%d s are %s", (seconds, text) => {
    expect(formatDuration(seconds)).toBe(text);
  });

  it("tell the time left, a slow first step aside", () => {
    const timer = stepTimer();
    expect(timer.left(10)).toBeNaN();
    timer.add(60);
    expect(timer.left(10)).toBe(600);
    timer.add(0.5);
    expect(timer.left(10)).toBe(5);
    timer.add(0.7);
    expect(timer.left(10)).toBeCloseTo(6, 10);
    for (let i = 0; i < 200; i++) timer.add(2);
    expect(timer.left(10)).toBeCloseTo(20, 3);
  });
});
