/** Commands without settings refuse one rather than ignore it. */
import { expect, it } from "vitest";
import { command as doctor } from "../../src/cli/doctor.ts";
import { command as explain } from "../../src/cli/explain.ts";

it.each([
  ["doctor", doctor],
  ["explain", explain],
])("%s refuses a setting", async (_, { run }) => {
  await expect(run(["steps=1"])).rejects.toThrow(
    expect.objectContaining({ code: "E_ARGUMENT", message: expect.stringContaining('"steps=1"') }),
  );
});
