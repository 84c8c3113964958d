/** `halfbyte explain`: what the keys of a run mean, and what presets, models and recipes stand for. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { explainKey, explainKeys, factsOf, fields, knownKey, settableNames, unknownKey } from "../config/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { topicList, topicNames, topicsOf } from "./topics.ts";

export const command: Command = {
  help: `Usage: halfbyte explain [NAME …] [--json]

Tells what a key means, may be and is by default, and what reads it; what other programs' keys become here; and what a
preset, a model_name or a recipe stands for. Without a name, one line for each key and the names of the rest.

  --json   the same as a JSON array on standard output

Example: halfbyte explain quantization lr_warmup_iters llama3-8b nvfp4
`,
  async run(args) {
    const { words, flags } = parseArguments(args, { keys: [], maxWords: 100 });
    const texts = words.flatMap((name) => explained(name).map(({ text }) => text));
    if (flags.has("json")) {
      const rows =
        words.length === 0 ? [...fields().keys()].map(keyRow) : words.flatMap(explained).map(({ row }) => row);
      process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
    } else process.stdout.write(words.length === 0 ? `${explainKeys()}${topicList()}` : texts.join("\n"));
    return 0;
  },
};

interface Explained {
  readonly text: string;
  readonly row: object;
}

/** @throws UserError with the nearest name, where nothing is called `name` */
function explained(name: string): Explained[] {
  const text = explainKey(name);
  const key = knownKey(name);
  const all = [
    ...(text === undefined ? [] : [{ text, row: key === undefined ? { kind: "other", name, text } : keyRow(key) }]),
    ...topicsOf(name).map((topic) => ({ text: topic.text, row: topic })),
  ];
  if (all.length > 0) return all;
  const near = nearest(name, [...settableNames(), ...topicNames()]);
  if (near === undefined || settableNames().includes(near)) throw unknownKey(name);
  throw new UserError("E_UNKNOWN_KEY", `unknown name "${name}"; did you mean ${near}?`);
}

const keyRow = (key: string): object => ({ kind: "key", ...factsOf(fields().get(key)!) });
