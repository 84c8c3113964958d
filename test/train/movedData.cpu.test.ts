/** What a run that goes on must find again: its data, wherever they lie. */
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { saveTokenizer, trainBpe } from "../../src/tokenizers/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { temporaryCache } from "../temporaryCache.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";
import { stateHashes } from "./runFiles.ts";
import { tinyKeys } from "./tinyRun.ts";

beforeAll(ensureBuilt);

const model = tinyKeys.filter((key) => !/^(dataset_type|vocab_size)=/.test(key));
const sentence = (i: number) => `sentence ${i} of some, which says ${i * 7} things about the cat. `;

/** @returns a folder, and training in it: the standard output, or the sentence of a refusal by exit code 2 */
function runIn(files: Record<string, string>) {
  const cache = temporaryCache();
  vi.stubEnv("HALFBYTE_CACHE", cache);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    rmSync(cache, { recursive: true, force: true });
  });
  const folder = temporaryFolder(files);
  const start = (run: string, steps: number, ...keys: string[]) =>
    halfbyte([
      ...["train", ...model, `base_output_directory=${join(folder, "runs")}`, "learning_rate_schedule_steps=4"],
      ...[`run_name=${run}`, `steps=${steps}`, ...keys],
    ]);
  return {
    folder,
    async trained(...args: Parameters<typeof start>) {
      const { exitCode, stdout, stderr } = await start(...args);
      expect(exitCode, stderr).toBe(0);
      return stdout;
    },
    async refused(...args: Parameters<typeof start>) {
      const { exitCode, stderr } = await start(...args);
      expect(exitCode, stderr).toBe(2);
      return stderr;
    },
  };
}

async function writeTokenizer(folder: string, text: string, template?: string) {
  saveTokenizer(await trainBpe([text], 280), folder);
  if (template !== undefined) writeFileSync(join(folder, "chat_template.jinja"), template);
}

describe("a run that goes on", () => {
  it("finds data, validation data and tokenizer that were moved, to the same bits, and says so; others are refused", async () => {
    const texts = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`books/${i}.txt`, sentence(i).repeat(4)]));
    const { folder, trained, refused } = runIn({
      ...texts,
      "more.txt": sentence(77).repeat(9),
      "val.txt": sentence(99).repeat(3),
    });
    const at = (name: string) => join(folder, name);
    await writeTokenizer(at("tok"), sentence(1).repeat(9));
    const data = [`dataset_path=${at("books")},0.9;${at("more.txt")},0.1`, `tokenizer_path=${at("tok")}`];
    await trained("straight", 4, ...data, "checkpoint_period=2", "validation_fraction=0.2");
    await trained("parts", 2, ...data, "checkpoint_period=2", "validation_fraction=0.2");
    const own = [`dataset_path=${at("books")}`, `eval_dataset_path=${at("val.txt")}`];
    await trained("own", 2, ...own);
    for (const name of ["books", "more.txt", "tok", "val.txt"]) renameSync(at(name), at(`moved-${name}`));

    const there = [
      `dataset_path=${at("moved-books")},0.9;${at("moved-more.txt")},0.1`,
      `tokenizer_path=${at("moved-tok")}`,
    ];
    const resumed = await trained("parts", 4, ...there, "checkpoint_period=2", "validation_fraction=0.2");
    expect(resumed).toContain(
      `dataset_path was ${at("books")},0.9;${at("more.txt")},0.1 and is ${at("moved-books")},0.9;${at("moved-more.txt")},0.1: the same contents\n`,
    );
    expect(resumed).toContain(`tokenizer_path was ${at("tok")} and is ${at("moved-tok")}: the same contents\n`);
    for (const step of [2, 4]) {
      expect(stateHashes(at("runs/parts"), step)).toEqual(stateHashes(at("runs/straight"), step));
    }
    const config = readFileSync(at("runs/own/config.json"), "utf8");
    const others = [`dataset_path=${at("moved-books")}`, `eval_dataset_path=${at("moved-val.txt")}`];
    writeFileSync(at("moved-val.txt"), sentence(98).repeat(3));
    expect(await refused("own", 4, ...others)).toMatch(
      /own can't be resumed: the validation text gives other tokens: the files of eval_dataset_path=\S+moved-val\.txt have changed \(hash [0-9a-f]{12}; the run began with [0-9a-f]{12}\)\. Put back what it was, or choose/,
    );
    writeFileSync(at("moved-val.txt"), sentence(99).repeat(3));
    writeFileSync(at("moved-books/3.txt"), sentence(50).repeat(4));
    expect(await refused("own", 4, ...others)).toContain(
      "the training text gives other tokens: the files of dataset_path=",
    );
    writeFileSync(at("moved-books/3.txt"), sentence(3).repeat(4));
    expect(await refused("own", 4, `dataset_path=${at("moved-books")}`)).toContain("was started with other settings");
    expect(readFileSync(at("runs/own/config.json"), "utf8")).toBe(config);
    expect(await trained("own", 4, ...others)).toMatch(/eval_dataset_path was \S+val\.txt and is \S+moved-val\.txt/);
  });

  it("tells other weights and another order of its sources from other files, and goes on with the same shares", async () => {
    const { folder, trained, refused } = runIn({
      ...{ "a.txt": sentence(1).repeat(40), "b.txt": sentence(2).repeat(30), "val.txt": sentence(3).repeat(9) },
    });
    const [a, b] = [join(folder, "a.txt"), join(folder, "b.txt")];
    const own = [`eval_dataset_path=${join(folder, "val.txt")}`, "tokenizer_path=byte"];
    await trained("mixed", 2, `dataset_path=${a},0.5;${b},0.3`, ...own);
    expect(await refused("mixed", 4, `dataset_path=${a},0.4;${b},0.4`, ...own)).toContain(
      `the weights of dataset_path=${a},0.4;${b},0.4 changed: they were 0.5;0.3, and are 0.4;0.4. Put back`,
    );
    expect(await refused("mixed", 4, `dataset_path=${b},0.3;${a},0.5`, ...own)).toContain(
      `are in another order than it began with, dataset_path=${a},0.5;${b},0.3. Put back their order`,
    );
    await trained("mixed", 4, `dataset_path=${a},5;${b},3`, ...own);
  });

  it("tells a changed chat template from a changed tokenizer, and goes on with the copy in its folder", async () => {
    const chats = Array.from({ length: 30 }, (_, i) => ({
      messages: [
        { role: "user", content: `what is ${i}?` },
        { role: "assistant", content: sentence(i) },
      ],
    }));
    const records = chats.map((chat) => `${JSON.stringify(chat)}\n`).join("");
    const { folder, trained, refused } = runIn({ "chats.jsonl": records });
    const at = (name: string) => join(folder, name);
    const template = (sign: string) =>
      `{% for m in messages %}${sign}{{ m.role }}: {% if m.role == "assistant" %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}`;
    await writeTokenizer(at("tok"), sentence(1).repeat(9), template("#"));
    cpSync(at("tok"), at("first-tok"), { recursive: true });
    const keys = ["dataset_type=chat", `dataset_path=${at("chats.jsonl")}`];
    const own = `tokenizer_path=${at("tok")}`;
    const kept = at("runs/chat/tokenizer");
    await trained("chat", 2, ...keys, own);

    writeFileSync(at("tok/chat_template.jinja"), template("##"));
    const fix = `Set tokenizer_path=${kept}, which is the one it began with, or choose another run_name`;
    expect(await refused("chat", 4, ...keys, own)).toMatch(
      new RegExp(
        `chat can't be resumed: the chat template of ${own} changed \\(hash [0-9a-f]{12}; the run began with [0-9a-f]{12}\\)\\. ${fix}`,
      ),
    );
    writeFileSync(at("chats.jsonl"), records.replaceAll("what is", "what was"));
    expect(await refused("chat", 4, ...keys, own)).toContain("; the training files of dataset_path=");
    writeFileSync(at("chats.jsonl"), records);
    await writeTokenizer(at("tok"), sentence(2).repeat(3), template("#"));
    expect(await refused("chat", 4, ...keys, own)).toMatch(
      /tok is another tokenizer \(hash .*which is the one it began with/,
    );
    expect(await trained("chat", 3, ...keys, `tokenizer_path=${kept}`)).toContain(
      `tokenizer_path was ${at("tok")} and is`,
    );
    expect(await trained("chat", 4, ...keys, `tokenizer_path=${at("first-tok")}`)).toContain("the same contents");
  });
});
