/** Trials of public bug reports about packing and padding, through `halfbyte train` as a process. */
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type EventOf, readEvents } from "../../src/metrics/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

interface Ran {
  readonly stdout: string;
  readonly steps: readonly EventOf<"step">[];
  readonly skipped: readonly EventOf<"skip">[];
  readonly validation: EventOf<"eval"> | undefined;
}

/** A run on texts, each a document, in float32. */
async function train(texts: Readonly<Record<string, string>>, ...keys: readonly string[]): Promise<Ran> {
  const base = temporaryFolder();
  const own = ["dtype=float32", "vocab_size=257", "steps=1", `base_output_directory=${base}`, "run_name=run"];
  // The later of two settings of a key counts.
  const settings = new Map(
    [...tinyKeys, "dataset_type=text", ...own, pathOf(texts), ...keys].map((key) => [key.split("=")[0], key]),
  );
  const { exitCode, stdout, stderr } = await halfbyte(["train", ...settings.values()]);
  expect(exitCode, stderr).toBe(0);
  const { events } = readEvents(join(base, "run", "events.jsonl"));
  const steps = events.flatMap((event) => (event.type === "step" ? [event] : []));
  const skipped = events.flatMap((event) => (event.type === "skip" ? [event] : []));
  return { stdout, steps, skipped, validation: events.findLast((event) => event.type === "eval") };
}

const completions = ["dataset_type=completion", "max_target_length=16"];
const jsonLines = (records: readonly object[]) => ({
  "records.jsonl": records.map((record) => `${JSON.stringify(record)}\n`).join(""),
});
const pathOf = (texts: Readonly<Record<string, string>>) => `dataset_path=${temporaryFolder(texts)}`;
const relative = (a: number, b: number) => Math.abs(a / b - 1);
/** Texts of the given lengths, none of which is like another. */
const texts = (...lengths: readonly number[]) =>
  Object.fromEntries(
    lengths.map((length, i) => [
      `${String.fromCharCode(97 + i)}.txt`,
      Array.from({ length }, (_, t) => String.fromCharCode(97 + ((t * t * 7 + t * 3 + i * 5) % 26))).join(""),
    ]),
  );

describe("trials", () => {
  it("B5: a document of 5 tokens in a sequence of 128 has the loss and the gradient of the 5 alone", async () => {
    const document = { "a.txt": "abcde" };
    const one = ["packing=none", "per_device_batch_size=1"];
    const padded = await train(document, ...one, "max_target_length=128");
    const alone = await train(document, ...one, "max_target_length=5");
    expect(padded.stdout).toContain("packing: 1 sequences of 128 tokens, 1 documents each; 96.1 % padding");
    expect(padded.steps[0]!.validTokens).toBe(5);
    expect(relative(padded.steps[0]!.loss, alone.steps[0]!.loss)).toBeLessThan(1e-6);
    expect(relative(padded.steps[0]!.gradNorm, alone.steps[0]!.gradNorm)).toBeLessThan(1e-5);
  });

  it("B11: documents that are packed into sequences have the losses that each has alone", async () => {
    const documents = texts(9, 14, 5, 20);
    const training = pathOf(texts(200));
    const validate = (files: Readonly<Record<string, string>>, ...keys: readonly string[]) =>
      train(files, training, `eval_dataset_path=${temporaryFolder(files)}`, ...keys);
    const packed = await validate(documents, "packing=best_fit", "max_target_length=30");
    const alone = await validate(documents, "packing=none", "max_target_length=30");
    const crossing = await validate(
      documents,
      "packing=best_fit",
      "max_target_length=30",
      "reset_attention_mask=false",
    );
    expect([packed, alone, crossing].map(({ validation }) => validation!.validTokens)).toEqual([48, 48, 48]);
    // Training is the same in all: one long document.
    expect(relative(packed.steps[0]!.loss, alone.steps[0]!.loss)).toBeLessThan(1e-6);
    expect(relative(packed.validation!.loss, alone.validation!.loss)).toBeLessThan(1e-6);
    expect(relative(crossing.validation!.loss, alone.validation!.loss)).toBeGreaterThan(1e-5);
  }, 120_000);

  it("B1: packed batches with padding: micro-batches have the loss and the gradient of the whole batch", async () => {
    const documents = texts(30, 3, 17, 25, 8, 31, 2, 2);
    const keys = ["packing=best_fit", "max_segments_per_seq=2", "steps=2"];
    const whole = await train(documents, ...keys, "per_device_batch_size=4");
    const parts = await train(documents, ...keys, "per_device_batch_size=1", "gradient_accumulation_steps=4");
    whole.steps.forEach((step, i) => {
      expect(parts.steps[i]!.validTokens).toBe(step.validTokens);
      expect(step.validTokens).toBeLessThan(4 * 32);
      expect(relative(parts.steps[i]!.loss, step.loss)).toBeLessThan(1e-6);
      expect(relative(parts.steps[i]!.gradNorm, step.gradNorm)).toBeLessThan(1e-5);
    });
  });

  it("packed documents with scanned layers and recomputation have the bits of the plain program, validated and measured", async () => {
    const documents = { ...texts(30, 3, 17, 25, 8, 31, 2, 2), "x.txt": "0123456789" };
    const keys = ["packing=best_fit", "dtype=bfloat16", "steps=2", "validation_fraction=0.2"];
    const parts = ["per_device_batch_size=2", "gradient_accumulation_steps=2"];
    const plain = await train(documents, ...keys, ...parts);
    const way = ["scan_layers=true", "remat_policy=minimal_with_context", "telemetry_period=2"];
    const other = await train(documents, ...keys, ...parts, ...way);
    const numbers = ({ steps, validation }: Ran) => [
      ...steps.map(({ loss, gradNorm }) => [loss, gradNorm]),
      validation!.loss,
    ];
    expect(numbers(plain).flat().every(Number.isFinite)).toBe(true);
    expect(numbers(other)).toEqual(numbers(plain));
  }, 120_000);

  it("B12: a batch in which nothing is to be predicted is skipped and counted, and the run goes on", async () => {
    const records = [{ prompt: "what is the answer to everything?", completion: "42" }];
    const { steps, skipped } = await train(jsonLines(records), ...completions, "per_device_batch_size=1", "steps=3");
    // The prompt takes two sequences of 16 and a part of the third, which alone has something to predict.
    expect(skipped.map(({ reason }) => reason)).toEqual(["no targets", "no targets"]);
    expect(steps.map(({ validTokens }) => validTokens)).toEqual([3]);
    expect(Number.isFinite(steps[0]!.loss)).toBe(true);
  });

  it("B6: the end of a completion is predicted and padding is not, whatever their ids: masks are by place", async () => {
    const records = [
      { prompt: "a", completion: "bc" },
      { prompt: "de", completion: "f" },
    ];
    const { stdout, steps } = await train(jsonLines(records), ...completions, "per_device_batch_size=1");
    // Data with prompts are packed whole and kept apart unless someone says otherwise.
    expect(stdout).toContain("packing=best_fit");
    expect(stdout).toContain("reset_attention_mask=true");
    expect(stdout).toContain("packing: 1 sequences of 16 tokens, 2 documents each; 62.5 % padding");
    // b, c and an end; f and an end.
    expect(steps[0]!.validTokens).toBe(5);
  });

  it("A17: three documents of one token in a sequence of 8: each predicts its own end, and nothing else counts", async () => {
    const keys = ["max_target_length=8", "per_device_batch_size=1"];
    const documents = { "a.txt": "a", "b.txt": "b", "c.txt": "c" };
    const { stdout, steps } = await train(documents, ...keys, "packing=best_fit");
    expect(stdout).toContain("training 6 tokens in 3 documents");
    expect(stdout).toContain("packing: 1 sequences of 8 tokens, 3 documents each; 62.5 % padding");
    expect(steps[0]!.validTokens).toBe(3);
  });

  it("a stream cut anywhere counts no target of another document where documents are kept apart", async () => {
    const documents = texts(20, 20, 23);
    const keys = ["max_target_length=22", "per_device_batch_size=2"];
    const crossing = await train(documents, ...keys);
    const within = await train(documents, ...keys, "reset_attention_mask=true");
    expect(crossing.steps[0]!.validTokens).toBe(44);
    // Two of the documents' ends lie in the windows.
    expect(within.steps[0]!.validTokens).toBeLessThan(44);
    expect(within.steps[0]!.loss).not.toBe(crossing.steps[0]!.loss);
  });
});
