/** What `halfbyte demo` refuses before it does anything, where its text was not fetched. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { command as demo } from "../../src/cli/demo.ts";

let cache = "";
beforeAll(() => {
  cache = mkdtempSync(join(tmpdir(), "halfbyte-demo-"));
});
afterAll(() => rmSync(cache, { recursive: true }));
beforeEach(() => void vi.stubEnv("HALFBYTE_CACHE", cache));
afterEach(() => vi.unstubAllEnvs());

const refusal = (args: readonly string[]) =>
  demo.run([...args, `base_output_directory=${join(cache, "demo")}`]).then(
    () => undefined,
    (error: Error) => error,
  );

describe("halfbyte demo without its text", () => {
  it.each([
    ["stps=3", 'unknown key "stps"; did you mean steps?'],
    ["steps=0", "steps=0: must be an integer at least 1"],
    ["quantization=int8", "integer formats are not built"],
    ["quantization=none", "quantization=none quantizes nothing"],
    ["first_layers_bf16=4", "would quantize nothing"],
    ["run_name=mine", "run_name=mine does nothing here"],
    ["run_name=", "set base_output_directory=DIR"],
    ["mixed_precision_recipe=bf16_mixed", "quantization=bf16_mixed quantizes nothing"],
    ["dataset_path=", "dataset_path is missing"],
  ])("says first what is wrong with %s", async (setting, message) => {
    expect((await refusal([setting]))?.message).toContain(message);
    expect(readdirSync(cache)).toEqual([]);
  });

  it("misses the text where the settings are right", async () => {
    expect(await refusal(["steps=3"])).toMatchObject({ code: "E_DEMO_TEXT" });
    expect(await refusal(["steps=3", "dataset_type=text"])).toMatchObject({ code: "E_DEMO_TEXT" });
    expect(await refusal(["train_iters=3", "mock=false"])).toMatchObject({ code: "E_DEMO_TEXT" });
    expect(readdirSync(cache)).toEqual([]);
  });
});
