/** Trials of public bug reports about data and shapes, through `halfbyte train` as a process. */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readEvents } from "../../src/metrics/index.ts";
import { byteTokenizer, loadTokenizer, saveTokenizer, trainBpe } from "../../src/tokenizers/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

const textKeys = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
/** `keys` with the values of `changes` in place of theirs. */
const withKeys = (keys: readonly string[], ...changes: readonly string[]) => {
  const nameOf = (key: string) => key.split("=")[0];
  const changed = changes.map(nameOf);
  return [...keys.filter((key) => !changed.includes(nameOf(key))), ...changes];
};
const sentences = (word: string) => `${word} sat on the mat, and that was that. `.repeat(40);

describe("trials", () => {
  it("A4: 40 tokens, windows of 128: exit 2 with both numbers and the split, and nothing is written", async () => {
    const folder = temporaryFolder({ "a.txt": "x".repeat(39) });
    const base = join(folder, "runs");
    const args = [`dataset_path=${folder}`, "max_target_length=128", `base_output_directory=${base}`];
    const { exitCode, stdout, stderr } = await halfbyte(["train", ...withKeys(textKeys, ...args)]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toMatch(/^halfbyte: the training split has 40 tokens .*129 are needed: .*\n$/);
    expect(existsSync(base)).toBe(false);
  });

  it("A7: no stale tokens: a resumed run refuses another tokenizer, window or text, and says which", async () => {
    const folder = temporaryFolder({ "texts/a.txt": sentences("the cat") });
    const tokenizer = join(folder, "tokenizer");
    const learn = async (text: string) => saveTokenizer(await trainBpe([text], 270), tokenizer);
    await learn(sentences("the cat"));
    const base = join(folder, "runs");
    const keys = [...textKeys, `dataset_path=${join(folder, "texts")}`, `base_output_directory=${base}`, "steps=2"];
    const bytes = await halfbyte(["train", ...keys, "run_name=bytes"]);
    expect(bytes.exitCode, bytes.stderr).toBe(0);
    // The folder needs nothing else: it holds the tokenizer, "byte" too.
    expect(readdirSync(join(base, "bytes")).sort()).toContain("tokenizer");
    expect(loadTokenizer(join(base, "bytes", "tokenizer")).hash).toBe(byteTokenizer().hash);

    const refused = async (args: readonly string[], message: RegExp) => {
      const { exitCode, stderr } = await halfbyte(["train", ...withKeys(keys, ...args)]);
      expect(exitCode, stderr).toBe(2);
      expect(stderr).toMatch(message);
    };
    await refused(["run_name=bytes", `tokenizer_path=${tokenizer}`], /tokenizer_path: .?byte.? → /);
    await refused(["run_name=bytes", "max_target_length=16"], /max_target_length: 32 → 16/);

    const words = [`tokenizer_path=${tokenizer}`, "run_name=words"];
    const first = await halfbyte(["train", ...keys, ...words]);
    expect(first.exitCode, first.stderr).toBe(0);
    const losses = (run: string) =>
      readEvents(join(base, run, "events.jsonl")).events.flatMap((event) => (event.type === "step" ? event.loss : []));
    expect(losses("words")).not.toEqual(losses("bytes"));
    // The same path, another vocabulary.
    await learn(sentences("the dog barked"));
    await refused(["steps=4", ...words], /is another tokenizer \(hash /);
    // The same file name and size, another text.
    writeFileSync(join(folder, "texts", "a.txt"), sentences("the dog"));
    await refused(
      ["steps=4", "run_name=bytes"],
      /the training text gives other tokens: the files of dataset_path=\S+ have changed/,
    );
  });

  it("D3: hidden 48, kv dim 16, FFN 100, vocab 259, 63 tokens in nvfp4: no multiple of 16 is needed, blocks are padded", async () => {
    const base = temporaryFolder();
    const { exitCode, stderr, stdout } = await halfbyte([
      "train",
      "dataset_type=synthetic",
      "emb_dim=48",
      "num_query_heads=3",
      "num_kv_heads=1",
      "head_dim=16",
      "mlp_dim=100",
      "vocab_size=259",
      "num_decoder_layers=2",
      "max_target_length=21",
      "per_device_batch_size=3",
      "quantization=nvfp4",
      "learning_rate=0.01",
      "steps=4",
      `base_output_directory=${base}`,
      "run_name=odd",
    ]);
    expect(exitCode, stderr).toBe(0);
    // Before anything is compiled, each layer says which of its dims are padded: those that need it and no other (D5).
    const [table] = stdout.split("compiled train_step");
    expect(table).toMatch(/block 0, mlp\.gate up: .*fprop pads out 100→112; .*wgrad pads tokens 63→64\)/);
    expect(table).toMatch(/block 0, mlp\.down: .*fprop pads in 100→112; /);
    expect(table).not.toMatch(/pads \w+ (48|16|259)/);
    const losses = readEvents(join(base, "odd", "events.jsonl")).events.flatMap((event) =>
      event.type === "step" ? event.loss : [],
    );
    expect(losses).toHaveLength(4);
    expect(losses.every((loss) => Number.isFinite(loss) && loss < 8)).toBe(true);
  });

  it("D5: a refused shape names the dimension that fails and the multiple it needs, and no other", async () => {
    const args = ["emb_dim=767", "num_query_heads=8", "num_kv_heads=4", "mlp_dim=2048"];
    const keys = tinyKeys.filter((key) => !key.startsWith("head_dim="));
    const { exitCode, stdout, stderr } = await halfbyte(["train", ...withKeys(keys, ...args)]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toMatch(/emb_dim=767 is no multiple of num_query_heads=8/);
    expect(stderr).not.toMatch(/mlp_dim|2048/);
  });
});
