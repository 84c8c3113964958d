import { afterEach, expect, it, vi } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import {
  checkEnvironment,
  nativeKernelsWanted,
  oneDnnWanted,
  wantedInstructions,
} from "../../src/pjrt/environmentChoices.ts";

afterEach(() => vi.unstubAllEnvs());

it.each([
  ["", true],
  ["1", true],
  ["on", true],
  ["true", true],
  ["auto", true],
  ["0", false],
  ["off", false],
  ["false", false],
])("HALFBYTE_ONEDNN=%s", (value, wanted) => {
  vi.stubEnv("HALFBYTE_ONEDNN", value);
  expect(oneDnnWanted()).toBe(wanted);
});

it.each(["no", "2", "OF"])("HALFBYTE_ONEDNN=%s is refused with the choices", (value) => {
  vi.stubEnv("HALFBYTE_ONEDNN", value);
  expect(oneDnnWanted).toThrow(UserError);
  expect(oneDnnWanted).toThrow(
    `HALFBYTE_ONEDNN is "${value}"; it may be 0, off, false (without oneDNN's products) or 1, on, true, auto`,
  );
});

it.each(["no", "none"])("HALFBYTE_NATIVE_KERNELS=%s is refused with the choices", (value) => {
  vi.stubEnv("HALFBYTE_NATIVE_KERNELS", value);
  expect(nativeKernelsWanted).toThrow(
    `HALFBYTE_NATIVE_KERNELS is "${value}"; it may be 0, off, false (without native kernels) or 1, on, true, auto`,
  );
});

it("HALFBYTE_NATIVE_ISA names instructions that kernels are compiled for", () => {
  vi.stubEnv("HALFBYTE_NATIVE_ISA", "");
  expect(wantedInstructions()).toBeUndefined();
  vi.stubEnv("HALFBYTE_NATIVE_ISA", "avx2");
  expect(wantedInstructions()).toBe("avx2");
  vi.stubEnv("HALFBYTE_NATIVE_ISA", "avx3");
  expect(wantedInstructions).toThrow(
    'HALFBYTE_NATIVE_ISA is "avx3"; kernels are compiled for avx2, avx512, avx512bf16',
  );
});

it.each(["HALFBYTE_ONEDNN", "HALFBYTE_NATIVE_KERNELS", "HALFBYTE_NATIVE_ISA"])(
  "%s is looked at before anything is read",
  (name) => {
    vi.stubEnv(name, "what");
    expect(checkEnvironment).toThrow(name);
  },
);
