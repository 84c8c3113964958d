import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { command } from "../../src/cli/tokenizer.ts";
import { loadTokenizer } from "../../src/data/index.ts";
import { temporaryFolder } from "./temporaryFiles.ts";

afterEach(() => vi.restoreAllMocks());

/** Runs the command and gives what it printed. */
async function run(...args: string[]): Promise<string> {
  let printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += text;
    return true;
  });
  expect(await command.run(args)).toBe(0);
  return printed;
}

const books = () =>
  temporaryFolder(
    Object.fromEntries(
      Array.from({ length: 10 }, (_, i) => [
        `${i}.txt`,
        `The house of the ${i} cats and the dogs of word${i}. `.repeat(40),
      ]),
    ),
  );

describe("halfbyte tokenizer train", () => {
  it("writes a tokenizer, the same for the same text", async () => {
    const folder = books();
    const [a, b] = [join(folder, "a"), join(folder, "b")];
    const first = JSON.parse(await run("train", `dataset_path=${folder}`, "vocab_size=280", `output=${a}`, "--json"));
    await run("train", `dataset_path=${folder}`, "vocab_size=280", `output=${b}`);
    expect(first).toMatchObject({ vocabSize: 280, documents: 10, output: a });
    expect(first.bytesPerToken).toBeGreaterThan(2);
    expect(loadTokenizer(a).hash).toBe(loadTokenizer(b).hash);
    expect(loadTokenizer(a).hash).toBe(first.hash);
  });

  it("leaves out what training holds out, and says when the text gives fewer tokens", async () => {
    const folder = books();
    const args = ["train", `dataset_path=${folder}`, "validation_fraction=0.2", `output=${join(folder, "t")}`];
    const printed = await run(...args, "vocab_size=1_000");
    expect(printed).toContain("from 8 documents");
    expect(printed).toContain("fewer than vocab_size=1000");
  });

  it("refuses an output that is a file before it learns anything", async () => {
    const folder = books();
    const args = ["train", `dataset_path=${folder}`, `output=${join(folder, "1.txt")}`];
    await expect(command.run(args)).rejects.toThrow(/^output=.*1\.txt: no folder can be written there \(/);
    await expect(command.run(args)).rejects.toMatchObject({ code: "E_OUTPUT" });
  });

  it.each([
    [[], "what to do is missing"],
    [["trian"], 'did you mean "train"?'],
    [["train"], "dataset_path=… is missing"],
    [["train", "dataset_path=x"], "output=… is missing"],
    [["train", "dataset_path=x", "output=y", "vocab=5"], "vocab_size"],
    [["train", "dataset_path=x", "output=y", "vocab_size=many"], "vocab_size=many: must be an integer"],
    [["train", "dataset_path=x", "output=y", "vocab_size=100"], "vocab_size=100: must be 257 or more"],
    [["train", "dataset_path=x", "output=y", "validation_fraction=1"], "must be from 0 to below 1"],
    [["train", "dataset_path=no/such/place", "output=y"], "dataset_path=no/such/place: no such file or folder"],
  ])("refuses %j", async (args, message) => {
    await expect(command.run(args)).rejects.toThrow(message);
    expect(existsSync("y")).toBe(false);
  });
});
