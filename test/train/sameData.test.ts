import { describe, expect, it } from "vitest";
import type { DataHashes, Dataset } from "../../src/data/index.ts";
import { dataIdentity, refuseOtherData } from "../../src/train/sameData.ts";

const data = (hashes: Partial<DataHashes>) => ({ hashes: { tokens: "t", files: "f", ...hashes } }) as Dataset;
const run = {
  folder: { path: "runs/a", tokenizer: "runs/a/none" },
  keys: { dataset_path: "b", validation_fraction: 0.1 },
};
const moved = [{ key: "dataset_path", before: "a" }];

describe("what tells a run's data", () => {
  it("is the same, also of a checkpoint that tells less", () => {
    const whole = data({ split: "s", validation: "v", template: "p" });
    const saved = dataIdentity(whole);
    expect(saved).toEqual({ tokens: "t", files: "f", split: "s", validation: "v", template: "p" });
    expect(() => refuseOtherData(saved, { data: whole, ...run, moved })).not.toThrow();
    expect(() => refuseOtherData({ tokens: "t" }, { data: whole, ...run })).not.toThrow();
    expect(() => refuseOtherData({ tokens: "t" }, { data: data({}), ...run, moved })).not.toThrow();
    // The tokens are what counts.
    expect(() =>
      refuseOtherData(saved, { data: data({ ...whole.hashes, files: "g", template: "q" }), ...run }),
    ).not.toThrow();
  });

  it.each([
    [{ tokens: "u", files: "g" }, "the training text gives other tokens: the files of dataset_path=b have changed"],
    [{ tokens: "u" }, "though its files have not changed"],
    [{ split: "z" }, "other documents of dataset_path=b are held out for validation: files were renamed"],
  ])("%j is refused: %s", (changes, message) => {
    const saved = { tokens: "t", files: "f", split: "s" };
    expect(() => refuseOtherData(saved, { data: data({ split: "s", ...changes }), ...run })).toThrow(message);
  });

  it("refuses another place where a checkpoint does not tell what was held out", () => {
    expect(() => refuseOtherData({ tokens: "t" }, { data: data({ split: "s" }), ...run, moved })).toThrow(
      "runs/a can't be resumed: its checkpoint does not tell whether dataset_path=b holds what a held. Set dataset_path=a again, or",
    );
  });
});
