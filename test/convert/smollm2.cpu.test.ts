/**
 * E8 on a real model: SmolLM2-135M-Instruct from its GGUF file, converted, gives the losses that an independent computation
 * of the same weights gives, and " Paris". Skipped where the file can't be had (98 MB, with HALFBYTE_LARGE_TESTS=1) or the
 * demo's text is not set up.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, type TestContext } from "vitest";
import { cacheRoot } from "../../scripts/cache.mjs";
import { sotuFolder, sotuIsInstalled } from "../../scripts/dataset.mjs";
import { convertModel, openSource, readParameters } from "../../src/convert/index.ts";
import { disposeTree, putTree } from "../../src/jit/index.ts";
import { bf16 } from "../../src/quant/index.ts";
import { loadTokenizer } from "../../src/tokenizers/index.ts";
import { makeSampler } from "../../src/train/sample.ts";
import { pipFile, smolLm2 } from "../pipPackage.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";

const scratch = mkdtempSync(join(tmpdir(), "halfbyte-smollm2-"));
afterAll(() => rmSync(scratch, { recursive: true }));

interface Model {
  readonly file: string;
  /** What the file is converted to. */
  readonly folder: string;
}
let made: Promise<Model> | undefined;

async function modelOf(context: TestContext): Promise<Model> {
  const file = await pipFile(context, smolLm2);
  made ??= converted(file);
  return made;
}

async function converted(file: string): Promise<Model> {
  await ensureBuilt();
  const folder = join(scratch, "SmolLM2-135M");
  const { verification } = await convertModel(file, folder, { verify: true });
  expect(verification!.sameBest).toBe(12);
  return { file, folder };
}

describe("SmolLM2-135M", () => {
  it.for([
    ["1861_abraham_lincoln_r", 3.7953],
    ["2015_barack_obama_d", 3.1129],
  ] as const)("%s: the first 512 tokens cost %d nats each", { timeout: 300_000 }, async ([name, wanted], context) => {
    context.skip(!sotuIsInstalled(cacheRoot()), "the demo's text is not there: npm run setup -- --demo");
    const { file, folder } = await modelOf(context);
    const text = `eval_dataset_path=${join(sotuFolder(cacheRoot()), `${name}.txt`)}`;
    const window = ["max_target_length=511", "eval_steps=1", "--json"];
    for (const model of [folder, file]) {
      const { stdout } = await halfbyte(["evaluate", model, text, ...window]);
      const { loss, validTokens } = JSON.parse(stdout);
      expect(validTokens).toBe(511);
      // The file's own weights, to the digits that are known; those rounded to bfloat16, within 0.01.
      expect(Math.abs(loss - wanted)).toBeLessThan(model === file ? 1e-4 : 0.01);
    }
  });

  it('goes on from "The capital of France is" with " Paris"', { timeout: 300_000 }, async (context) => {
    const { folder } = await modelOf(context);
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
