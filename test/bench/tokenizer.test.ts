/** `npm run bench:tokenizer` as a person runs it: what it refuses before it measures. */
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { halfbyte } from "../train/halfbyte.ts";

const script = fileURLToPath(new URL("../../bench/tokenizer.ts", import.meta.url));

it.each(["-1", "abc", "0"])("bench:tokenizer refuses megabytes=%s", async (megabytes) => {
  const args = ["--import", "tsx", script, `megabytes=${megabytes}`];
  expect(await halfbyte(args, { program: process.execPath })).toMatchObject({
    exitCode: 2,
    stdout: "",
    stderr: `megabytes=${megabytes}: must be a whole number above 0\n`,
  });
});
