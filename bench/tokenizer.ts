/** How fast tokenizers encode English, against Hugging Face's libraries in JavaScript and, where Python has it, in Rust. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Tokenizer as LibraryTokenizer } from "@huggingface/tokenizers";
import { cacheRoot } from "../scripts/cache.mjs";
import { sotuFolder, sotuIsInstalled } from "../scripts/dataset.mjs";
import { parseArguments } from "../src/cli/arguments.ts";
import { listSourceFiles } from "../src/data/index.ts";
import { copyTokenizer, loadTokenizer } from "../src/tokenizers/index.ts";
import { countOf, runBenchmark } from "./command.ts";

const help = `How fast tokenizers encode English, in MB a second of CPU time on one core:

    npm run bench:tokenizer -- [tokenizer=PATH] [megabytes=4] [--json]

The text is the demo's corpus (\`halfbyte setup --demo\` fetches it), or else this repository's documents again and again. Tokenizers are those of the
tests, one of each kind, and Llama 3's where the tests have fetched it; tokenizer=PATH is another one alone. Each encodes the first tenth
of it to get going, and then the rest, which counts: text it has not seen, with what caches of words it has filled. Halfbyte and the JavaScript library run in this process; the
Rust library runs in Python, one thread, where \`import tokenizers\` works there. Its ids must be equal.

Example:
    npm run bench:tokenizer -- tokenizer=books-tokenizer
`;

interface Speed {
  readonly name: string;
  readonly bytesPerToken: number;
  /** MB a second. */
  readonly halfbyte: number;
  /** Absent where the library can't load the file. */
  readonly javascript?: number;
  /** Absent without Python or its package. */
  readonly rust?: number;
}

const target = 2;
const root = fileURLToPath(new URL("..", import.meta.url));

async function main(args: readonly string[]): Promise<void> {
  const { settings, flags } = parseArguments(args, { keys: ["tokenizer", "megabytes"] });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const texts = english(1e6 * countOf("megabytes", settings.megabytes ?? "4"));
  const folder = mkdtempSync(join(tmpdir(), "halfbyte-tokenizers-"));
  try {
    const speeds = candidates(folder, settings.tokenizer).map(([name, path]) => measure(name, path, texts, folder));
    if (flags.has("json")) process.stdout.write(`${JSON.stringify(speeds)}\n`);
    else process.stdout.write(table(speeds));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Documents of at least `bytes` in all. */
function english(bytes: number): string[] {
  const sources = sotuIsInstalled(cacheRoot())
    ? listSourceFiles(sotuFolder(cacheRoot())).map(({ path }) => path)
    : ["training.md", "architecture.md", "data.md", "quantize.md"].map((name) => join(root, "docs", name));
  const texts: string[] = [];
  for (let i = 0, sum = 0; sum < bytes; i++) {
    const text = readFileSync(sources[i % sources.length]!, "utf8");
    texts.push(text);
    sum += Buffer.byteLength(text);
  }
  return texts;
}

function candidates(folder: string, path: string | undefined): [string, string][] {
  if (path !== undefined) return [[path, path]];
  writeFileSync(join(folder, "tokenizer_config.json"), '{"eos_token": "<|end|>"}');
  const kinds = ["bytelevel-digits", "sentencepiece-bpe", "metaspace-first", "unigram", "wordpiece"];
  const llama3 = join(cacheRoot(), "test-data", "llama3-tokenizer-3.7.2");
  return [
    ...(existsSync(llama3) ? [["Llama 3 (byte-level BPE, 128,256)", llama3] as [string, string]] : []),
    ["byte-level BPE, 512 (golden 10)", join(root, "test/golden/10_tokenizer/tokenizer_llama3style.json")],
    ...kinds.map((kind): [string, string] => {
      const file = join(folder, `${kind}.json`);
      const { tokenizer } = JSON.parse(readFileSync(join(root, `test/data/tokenizers/${kind}.json`), "utf8"));
      writeFileSync(file, JSON.stringify(tokenizer));
      return [`${kind} (tests)`, file];
    }),
  ];
}

function measure(name: string, path: string, texts: readonly string[], folder: string): Speed {
  const [first, rest] = [texts.slice(0, firstOf(texts)), texts.slice(firstOf(texts))];
  const bytes = rest.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  const megabytesPerSecond = (encode: (text: string) => unknown): number => {
    for (const text of first) encode(text);
    const start = process.cpuUsage();
    for (const text of rest) encode(text);
    const { user, system } = process.cpuUsage(start);
    return bytes / (user + system);
  };
  const tokenizer = loadTokenizer(path);
  const copy = join(folder, "copy");
  rmSync(copy, { recursive: true, force: true });
  copyTokenizer(path, copy);
  const file = join(copy, "tokenizer.json");
  const halfbyte = megabytesPerSecond((text) => tokenizer.encode(text));
  const tokens = rest.reduce((sum, text) => sum + tokenizer.encode(text).length, 0);
  const javascript = libraryEncode(file);
  const rust = rustSpeed(file, texts, folder);
  if (rust !== undefined && rust.tokens !== tokens) {
    process.stderr.write(`${name}: ${tokens} tokens, and ${rust.tokens} by the Rust library\n`);
  }
  return {
    name,
    bytesPerToken: bytes / tokens,
    halfbyte,
    ...(javascript && { javascript: megabytesPerSecond(javascript) }),
    ...(rust && { rust: bytes / 1e6 / rust.seconds }),
  };
}

/** How many texts are for getting going. */
const firstOf = (texts: readonly unknown[]) => Math.ceil(texts.length / 10);

function libraryEncode(file: string): ((text: string) => unknown) | undefined {
  try {
    const library = new LibraryTokenizer(JSON.parse(readFileSync(file, "utf8")), {});
    library.encode("a", { add_special_tokens: false });
    return (text) => library.encode(text, { add_special_tokens: false });
  } catch {
    return undefined;
  }
}

const python = `
import json, sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
texts = json.load(open(sys.argv[2]))
first = int(sys.argv[3])
for text in texts[:first]: tokenizer.encode(text, add_special_tokens=False)
start = time.process_time()
tokens = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts[first:])
seconds = time.process_time() - start
print(json.dumps({"tokens": tokens, "seconds": seconds}))
`;

function rustSpeed(file: string, texts: readonly string[], folder: string) {
  const list = join(folder, "texts.json");
  writeFileSync(list, JSON.stringify(texts));
  const env = { ...process.env, RAYON_NUM_THREADS: "1", TOKENIZERS_PARALLELISM: "false" };
  const { status, stdout } = spawnSync("python3", ["-c", python, file, list, String(firstOf(texts))], {
    encoding: "utf8",
    env,
  });
  return status === 0 ? (JSON.parse(stdout) as { tokens: number; seconds: number }) : undefined;
}

function table(speeds: readonly Speed[]): string {
  const width = Math.max(...speeds.map(({ name }) => name.length));
  const cell = (value: number | undefined, of?: number) =>
    (value === undefined
      ? "-"
      : `${value.toFixed(2)}${of === undefined ? "" : ` (× ${(of / value).toFixed(1)})`}`
    ).padStart(16);
  const head = `${"MB/s of one core".padEnd(width)}${["Halfbyte", "JavaScript", "Rust"].map((name) => name.padStart(16)).join("")}  bytes a token\n`;
  const rows = speeds.map(({ name, halfbyte, javascript, rust, bytesPerToken }) => {
    const verdict = halfbyte >= target ? "" : `  below ${target} MB/s`;
    const cells = cell(halfbyte) + cell(javascript, halfbyte) + cell(rust, halfbyte);
    return `${name.padEnd(width)}${cells}  ${bytesPerToken.toFixed(2).padStart(13)}${verdict}\n`;
  });
  return `${head}${rows.join("")}(× how many times as fast Halfbyte is)\n`;
}

runBenchmark(main);
