import { afterEach, expect, it, vi } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { oneDnnWanted } from "../../src/pjrt/oneDnnChoice.ts";

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
