/**
 * Files from anywhere, damaged or made to harm: each is read rightly or refused by a typed error in a sentence, in bounded time and
 * memory. HALFBYTE_FUZZ_ROUNDS=20000 reads so many mutants of each format, HALFBYTE_FUZZ_SEED=7 other ones, and
 * HALFBYTE_FUZZ_ONLY=gguf:123 one format, from one mutant on.
 */
import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { formats } from "./formats.ts";
import { type Fault, fuzz } from "./fuzzer.ts";
import { mutantOf, withFolder, writeFiles } from "./mutant.ts";

const rounds = Number(process.env.HALFBYTE_FUZZ_ROUNDS ?? 60);
const seed = Number(process.env.HALFBYTE_FUZZ_SEED ?? 1);
const [only, from = "0"] = (process.env.HALFBYTE_FUZZ_ONLY ?? "").split(":") as [string, string?];
const wanted = formats.filter(({ name }) => only === "" || only.split(",").includes(name));

/** Keeps the input of a fault where it can be looked at. */
async function keep({ format: name, number, what }: Fault): Promise<string> {
  const format = formats.find((one) => one.name === name)!;
  const folder = join(tmpdir(), "halfbyte-fuzz-faults", `${name}-${seed}-${number}`);
  mkdirSync(folder, { recursive: true });
  if (number >= 0) writeFiles(folder, mutantOf(format, await withFolder(format.seeds), seed, number));
  return `${what}\n  input: ${folder}\n  again: HALFBYTE_FUZZ_SEED=${seed} HALFBYTE_FUZZ_ONLY=${name}:${number} HALFBYTE_FUZZ_ROUNDS=1 npm test -- test/fuzz`;
}

describe("mutated files", () => {
  let faults: readonly Fault[];
  beforeAll(async () => {
    faults = await fuzz(
      wanted.map(({ name, share = 1 }) => ({ format: name, from: Number(from), count: Math.ceil(share * rounds) })),
      seed,
    );
  }, 3600_000);

  it.each(wanted.map(({ name }) => name))("%s: are read, or refused in a sentence", async (name) => {
    const found = faults.filter(({ format }) => format === name);
    expect(await Promise.all(found.slice(0, 5).map(keep))).toEqual([]);
  });
});
