import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { grad } from "../../src/autodiff/index.ts";
import { spec, type Tensor, trace } from "../../src/core/index.ts";

const vector = spec([2], "float32");

describe("a Tensor in the language's own constructs", () => {
  it("refuses conditions and operators, saying what to write", () => {
    const branch = (x: Tensor) => ((x.sum() as unknown as number) > 0 ? x : x.neg());
    expect(() => trace(branch, vector)).toThrow("where(condition, a, b) instead of if");
    expect(() => trace((x: Tensor) => ((x as unknown as number) + 1) as unknown as Tensor, vector)).toThrow(".add(…)");
    expect(() => trace((x: Tensor) => x.add(`${x}`.length), vector)).not.toThrow();
  });

  it("refuses an asynchronous function by name", () => {
    expect(() => trace((async (x: Tensor) => x) as unknown as (x: Tensor) => Tensor, vector)).toThrow("got a Promise");
  });

  it("refuses the gradient of integers", () => {
    const f = (x: Tensor) => x.astype("float32").sum();
    expect(() => trace((x: Tensor) => grad(f)(x), spec([2], "int32"))).toThrow("int32[2] has no gradient");
  });
});

describe("the line a shape error names", () => {
  it("is the user's, in an arrow function of a folder named as one of ours", async () => {
    const folder = mkdtempSync(join(tmpdir(), "halfbyte-line-"));
    try {
      mkdirSync(join(folder, "src", "core"), { recursive: true });
      const file = join(folder, "src", "core", "model.mjs");
      writeFileSync(file, "\nexport const f = (x, y) => x.add(y);\n");
      const { f } = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as {
        f: (x: Tensor, y: Tensor) => Tensor;
      };
      expect(() => trace(f, vector, spec([3], "float32"))).toThrow(/src\/core\/model\.mjs:2:\d+\)$/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
