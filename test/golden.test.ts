import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { golden, goldenJson, goldenPath } from "./golden.ts";

interface Entry {
  bytes: number;
  sha256: string;
}

describe("golden data", () => {
  it("is what the manifest lists, byte for byte, and nothing else", () => {
    const root = goldenPath("");
    const files = readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
      .filter((name) => name !== "README.md" && name !== "manifest.json");
    const found = Object.fromEntries(
      files.map((name) => {
        const content = readFileSync(join(root, name));
        return [name, { bytes: content.length, sha256: createHash("sha256").update(content).digest("hex") }];
      }),
    );
    expect(found).toEqual(goldenJson<Record<string, Entry>>("manifest"));
  });

  it("loads by name", async () => {
    const cases = await golden("02_nvfp4/nvfp4_cases");
    expect(cases.names).toHaveLength(499);
    expect(cases.get("16x16_normal_bf16/input")).toMatchObject({ shape: [16, 16], dtype: "bfloat16" });
    expect(cases.values("16x16_normal_bf16/row1d.q")).toHaveLength(128);
    expect(cases.scalar("16x16_normal_bf16/row1d.amax")).toBeGreaterThan(0);
    expect(cases.has("16x16_normal_bf16/nothing")).toBe(false);
    expect(() => cases.get("16x16_normal_bf16/nothing")).toThrow(/no tensor/);
    expect(() => cases.scalar("16x16_normal_bf16/input")).toThrow(/no single value/);
  });
});
