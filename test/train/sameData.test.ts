import { describe, expect, it } from "vitest";
import type { DataHashes, Dataset } from "../../src/data/index.ts";
import { dataIdentity, refuseOtherData } from "../../src/train/sameData.ts";

const data = (hashes: Partial<DataHashes>) =>
  ({ hashes: { tokens: "t", texts: "x", sources: "y", files: "f", ...hashes } }) as Dataset;
const run = {
  folder: { path: "runs/a", tokenizer: "runs/a/none" },
  keys: { dataset_path: "b", validation_fraction: 0.1 },
};
const moved = [{ key: "dataset_path", before: "a" }];

describe("what tells a run's data", () => {
  it("is the same, also of a checkpoint that tells less", () => {
    const whole = data({ split: "s", validation: "v", template: "p" });
    const saved = dataIdentity(whole);
    const told = { tokens: "t", texts: "x", sources: "y", files: "f", split: "s", validation: "v", template: "p" };
    expect(saved).toEqual(told);
    expect(() => refuseOtherData(saved, { data: whole, ...run, moved })).not.toThrow();
    expect(() => refuseOtherData({ tokens: "t" }, { data: whole, ...run })).not.toThrow();
    expect(() => refuseOtherData({ tokens: "t" }, { data: data({}), ...run, moved })).not.toThrow();
    // The tokens are what counts.
    expect(() =>
      refuseOtherData(saved, { data: data({ ...whole.hashes, files: "g", template: "q" }), ...run }),
    ).not.toThrow();
  });

  it.each([
    [
      { tokens: "u", texts: "z", sources: "z", files: "g" },
      "the training text gives other tokens: the files of dataset_path=b have changed",
    ],
    [{ tokens: "u" }, "though its files have not changed"],
    [{ split: "z" }, "other documents of dataset_path=b are held out for validation: files were renamed"],
  ])("%j is refused: %s", (changes, message) => {
    const saved = { tokens: "t", files: "f", split: "s" };
    expect(() => refuseOtherData(saved, { data: data({ split: "s", ...changes }), ...run })).toThrow(message);
  });

  const weighted = (weights?: string) => ({ tokens: `t${weights}`, ...(weights !== undefined && { weights }) });
  const resumed = (saved: Partial<DataHashes>, now: Partial<DataHashes>) =>
    refuseOtherData(dataIdentity(data(saved)), { data: data(now), ...run, moved });

  it("goes on with the same shares, however they are written", () => {
    for (const same of ["5;3;2", "0.50;0.3;0.2", "50;30;20"])
      expect(() => resumed(weighted("0.5;0.3;0.2"), weighted(same))).not.toThrow();
  });

  it.each([
    ["0.5;0.3", "0.4;0.4", "they were 0.5;0.3, and are 0.4;0.4. Put back what they were, or"],
    ["0.5;0.3", undefined, "they were 0.5;0.3, and are none, so that its sources' sizes decided. Put"],
    [undefined, "1;1", "they were none, so that its sources' sizes decided, and are 1;1. Put"],
  ])("refuses the weights %s as %s", (before, after, message) => {
    expect(() => resumed(weighted(before), weighted(after))).toThrow(
      `the weights of dataset_path=b changed: ${message}`,
    );
  });

  it("tells another order from other files", () => {
    expect(() => resumed({}, { tokens: "u", texts: "z", files: "g" })).toThrow(
      "the sources of dataset_path=b are in another order than it began with, dataset_path=a. Put back their order, or",
    );
    const validation = { validation: "v", validationSources: "w" };
    expect(() => resumed(validation, { ...validation, validation: "z" })).toThrow(
      "are in another order than it began with. Put back their order",
    );
    expect(() => resumed(validation, { validation: "z", validationSources: "z" })).toThrow("have changed (hash z");
  });

  it("refuses another place where a checkpoint does not tell what was held out", () => {
    expect(() => refuseOtherData({ tokens: "t" }, { data: data({ split: "s" }), ...run, moved })).toThrow(
      "runs/a can't be resumed: its checkpoint does not tell whether dataset_path=b holds what a held. Set dataset_path=a again, or",
    );
  });
});
