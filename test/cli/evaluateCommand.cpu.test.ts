/** `halfbyte evaluate` as a process: the loss that an independent computation gives, the same in every form of a model. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { convertModel, openSource } from "../../src/convert/index.ts";
import { referenceLogits } from "../../src/convert/referenceLogits.ts";
import { openEvaluation } from "../../src/data/index.ts";
import { loadTokenizer } from "../../src/tokenizers/index.ts";
import { ggufOf, llamaB } from "../convert/models.ts";
import { temporaryCache } from "../temporaryCache.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";
import { tinyKeys } from "../train/tinyRun.ts";

const base = mkdtempSync(join(tmpdir(), "halfbyte-evaluate-"));
const text = join(base, "text.txt");
const words = "Some words, and then some more words of it. ";
const run = join(base, "run");
const cache = temporaryCache();
const ownCache = () => void vi.stubEnv("HALFBYTE_CACHE", cache);
beforeEach(ownCache);
beforeAll(async () => {
  await ensureBuilt();
  ownCache();
  writeFileSync(text, words.repeat(40));
  const keys = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
  const { exitCode, stderr } = await halfbyte([
    ...["train", ...keys, `dataset_path=${text}`, "tokenizer_path=byte", "make_vocab_size_divisible_by=128"],
    ...[`base_output_directory=${base}`, "run_name=run", "steps=2", "lr_schedule_type=constant"],
  ]);
  expect(exitCode, stderr).toBe(0);
});
afterAll(() => {
  vi.unstubAllEnvs();
  for (const folder of [base, cache]) rmSync(folder, { recursive: true, force: true });
});

const evaluate = (...args: string[]) => evaluateOn(text, ...args);
const evaluateOn = async (path: string, ...args: string[]) => {
  const { exitCode, stdout, stderr } = await halfbyte(["evaluate", ...args, `eval_dataset_path=${path}`, "--json"]);
  expect(exitCode, `${stdout}${stderr}`).toBe(0);
  return JSON.parse(stdout);
};

/** Mean negative log-likelihood of bytes 1 … length after those before each. */
async function expectedLoss(path: string, length: number): Promise<number> {
  const source = await openSource(path);
  const tokens = [...Buffer.from(words.repeat(2))];
  const options = { config: source.config.config, tokens: tokens.slice(0, length), paired: false };
  const logits = await referenceLogits(source.tensors, options);
  await source.close();
  const losses = logits.map((row, t) => {
    const highest = Math.max(...row);
    return Math.log(row.reduce((sum, x) => sum + Math.exp(x - highest), 0)) + highest - row[tokens[t + 1]!]!;
  });
  return losses.reduce((a, b) => a + b, 0) / length;
}

describe("halfbyte evaluate", () => {
  it("gives the loss of the first window as computed on the host, for a run and for its export", async () => {
    const folder = join(base, "exported");
    await convertModel(run, folder);
    const wanted = await expectedLoss(folder, 48);
    for (const model of [run, folder]) {
      const found = await evaluate(model, "max_target_length=48", "eval_steps=1");
      expect(found).toMatchObject({ model, precision: "float32", validTokens: 48, documents: 1 });
      expect(Math.abs(found.loss - wanted)).toBeLessThan(1e-5);
      expect(found.perplexity).toBeCloseTo(Math.exp(found.loss), 6);
      expect(found.bitsPerByte).toBeCloseTo(found.loss / Math.log(2), 5);
    }
    const all = await evaluate(folder, "max_target_length=48", "per_device_batch_size=4", "vocab_size=257");
    expect(all.validTokens).toBe(40 * words.length);
    const coarse = await evaluate(folder, "max_target_length=48", "eval_steps=1", "quantization=nvfp4");
    expect(coarse.precision).toBe("nvfp4");
    expect(Math.abs(coarse.loss - wanted)).toBeLessThan(0.2);
    expect(coarse.loss).not.toBe(wanted);
  });

  it("packs documents as it is told: those that don't see each other have the loss of each alone", async () => {
    const documents = join(base, "documents");
    mkdirSync(documents);
    for (const [i, length] of [30, 12, 5, 21].entries()) {
      writeFileSync(join(documents, `${i}.txt`), words.repeat(2).slice(3 * i, 3 * i + length));
    }
    const [packed, alone, stream] = [
      await evaluateOn(documents, run, "max_target_length=48", "packing=best_fit"),
      await evaluateOn(documents, run, "max_target_length=48", "packing=none"),
      await evaluateOn(documents, run, "max_target_length=48"),
    ];
    expect([packed, alone, stream].map(({ validTokens }) => validTokens)).toEqual([68, 68, 71]);
    expect(Math.abs(packed.loss / alone.loss - 1)).toBeLessThan(1e-6);
    expect(Math.abs(stream.loss / alone.loss - 1)).toBeGreaterThan(1e-5);
  });

  it("shortens windows to the text, where that is shorter, which changes no loss", async () => {
    const [long, enough] = [
      await evaluate(run, "max_target_length=100000"),
      await evaluate(run, "max_target_length=2048"),
    ];
    expect([long.validTokens, enough.validTokens]).toEqual([40 * words.length, 40 * words.length]);
    expect(Math.abs(long.loss / enough.loss - 1)).toBeLessThan(1e-6);
    const documents = join(base, "uneven");
    mkdirSync(documents);
    for (const length of [30, 100, 5])
      writeFileSync(join(documents, `${length}.txt`), words.repeat(3).slice(0, length));
    const tokenizer = loadTokenizer("byte");
    const shapeOf = async (maxTargetLength: number, packing: "none" | "concat" | "best_fit") => {
      const settings = { datasetType: "text", evalDatasetPath: documents, perDeviceBatchSize: 2 } as const;
      const opened = await openEvaluation({ ...settings, maxTargetLength, packing }, { tokenizer, vocabSize: 257 });
      const { shape } = opened.batches.batchAt(0).tokens;
      opened.close();
      return shape;
    };
    expect(await shapeOf(1000, "none")).toEqual([2, 128]);
    for (const packing of ["concat", "best_fit"] as const) expect(await shapeOf(1000, packing)).toEqual([2, 192]);
    expect(await shapeOf(48, "none")).toEqual([2, 48]);
  });

  it("tells of a mixture each source's loss, in the mixture's order: those of each alone", async () => {
    const other = join(base, "other.txt");
    writeFileSync(other, "No such thing, nor any other. ".repeat(5));
    const paths = [text, other];
    const { exitCode, stdout } = await halfbyte(["evaluate", run, `eval_dataset_path=${other},3;${text},1`]);
    expect(exitCode).toBe(0);
    const json = await evaluateOn(`${text};${other}`, run);
    expect(json.sources.map(({ source }: { source: string }) => source)).toEqual(paths);
    let [nats, tokens] = [0, 0];
    for (const [i, path] of paths.entries()) {
      const { loss, bitsPerByte, validTokens } = await evaluateOn(path, run);
      const own = json.sources[i];
      expect(own.validTokens).toBe(validTokens);
      expect(own.loss).toBeCloseTo(loss, 5);
      expect(own.bitsPerByte).toBeCloseTo(bitsPerByte, 5);
      nats += loss * validTokens;
      tokens += validTokens;
    }
    expect(json.loss).toBeCloseTo(nats / tokens, 5);
    const lines = [...json.sources]
      .reverse()
      .map(
        ({ source, loss, bitsPerByte, validTokens }) =>
          `  ${source}: loss ${loss.toFixed(4)}, ${bitsPerByte.toFixed(3)} bits a byte, over ${validTokens} tokens\n`,
      );
    expect(stdout.endsWith(lines.join(""))).toBe(true);
  });

  it("takes of prompts the loss of what follows them", async () => {
    const file = join(base, "prompts.jsonl");
    writeFileSync(file, '{"prompt": "Some words", "completion": ", and then"}\n');
    expect(await evaluateOn(file, run, "dataset_type=completion")).toMatchObject({ validTokens: 11, documents: 1 });
    const { exitCode, stderr } = await halfbyte([
      "evaluate",
      run,
      `eval_dataset_path=${file}`,
      "dataset_type=synthetic",
    ]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining("dataset_type=synthetic")]);
  });

  it("says what it needs", async () => {
    const refusal = async (...args: string[]) => {
      const { exitCode, stderr } = await halfbyte(["evaluate", ...args]);
      expect(exitCode).toBe(2);
      return stderr;
    };
    expect(await refusal()).toMatch(/the model is missing; usage/);
    expect(await refusal(run)).toMatch(/eval_dataset_path=… is missing/);
    expect(await refusal(run, "eval_dataset_path=/nowhere")).toMatch(/eval_dataset_path=\/nowhere/);
    expect(await refusal(run, `eval_dataset_path=${text}`, "validation_fraction=0.1")).toMatch(
      /validation_fraction=0.1 has no effect: evaluation reads all of eval_dataset_path/,
    );
    // What the model decides may be said again, and not otherwise; what is not read has no effect.
    const sized = await refusal(run, `eval_dataset_path=${text}`, "vocab_size=500", "norm_eps=0.1", "head_dim=4");
    expect(sized).toMatch(
      /3 things are wrong:\n.*vocab_size=500 contradicts the model: .*run has vocab_size=257; leave/,
    );
    expect(sized).toMatch(/norm_eps=0.1 contradicts the model: .*run has norm_eps=0.00001; leave it out/);
    expect(sized).toMatch(/head_dim=4 contradicts the model: .*run has head_dim=16; leave it out/);
    const idle = ["learning_rate=1", "steps=3", "run_name=a", "model_name=llama-tiny"];
    const all = await refusal(run, `eval_dataset_path=${text}`, ...idle, "rope_factor=2");
    for (const key of idle) expect(all).toContain(`${key} has no effect: evaluation neither trains`);
    expect(all).toMatch(/rope_factor=2 contradicts the model: .*run has none; leave it out/);
    expect(await refusal(run, `eval_dataset_path=${text}`, "learning_rat=1")).toMatch(/learning_rate/);
    writeFileSync(join(base, "one.txt"), "a");
    for (const packing of ["concat", "best_fit"])
      expect(await refusal(run, `eval_dataset_path=${join(base, "one.txt")}`, `packing=${packing}`)).toMatch(
        /the validation split has nothing to predict but tokens of no text/,
      );
    const training = await halfbyte([
      ...["train", ...tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key)), `dataset_path=${text}`],
      ...["tokenizer_path=byte", `eval_dataset_path=${join(base, "one.txt")}`, `base_output_directory=${base}`],
    ]);
    expect(training).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(/nothing to predict but tokens of no/),
    });
    expect(await refusal(join(base, "no"), `eval_dataset_path=${text}`)).toMatch(/no such file or folder/);
    const gguf = await ggufOf(join(base, "b.gguf"), llamaB);
    expect(await refusal(gguf, `eval_dataset_path=${text}`)).toMatch(
      /the tokenizer .*b.gguf has 512 tokens, and the model .*b.gguf rows for 256: it is another model's\n$/,
    );
    expect(await refusal(run, `eval_dataset_path=${text}`, `tokenizer_path=${gguf}`)).toMatch(
      /has 512 tokens, .* rows for 257: .*; leave out tokenizer_path to take the model's own\n$/,
    );
  });
});
