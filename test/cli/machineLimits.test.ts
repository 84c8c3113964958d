import { describe, expect, it } from "vitest";
import { wrongHardware } from "../../src/cli/machineLimits.ts";

describe("hardware", () => {
  it.each([
    ["any", undefined],
    ["any", "cpu"],
    ["cpu", "cpu"],
    ["gpu", "cuda"],
    ["gpu", "rocm"],
  ] as const)("%s is content with the platform %s", (hardware, platform) => {
    expect(wrongHardware(hardware, platform)).toBeUndefined();
  });

  it.each([
    ["gpu", "cpu", "hardware=gpu: the PJRT plugin runs on cpu; set HALFBYTE_PJRT_PLUGIN to the path of a CUDA plugin"],
    ["cpu", "cuda", "hardware=cpu: the PJRT plugin runs on cuda; unset HALFBYTE_PJRT_PLUGIN"],
  ] as const)("%s refuses the platform %s", (hardware, platform, message) => {
    expect(wrongHardware(hardware, platform)?.message).toContain(message);
  });
});
