/** `halfbyte explain`: what the keys of a run mean. */
import { explain, explainAll, fields, knownKey } from "../config/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

export const command: Command = {
  help: `Usage: halfbyte explain [KEY …] [--json]

Tells what keys mean, may be and are by default; without a key, one line for each of them.

  --json   the keys as a JSON array on standard output

Example: halfbyte explain quantization precision_policy
`,
  async run(args) {
    const { words, flags } = parseArguments(args, { keys: [], maxWords: 100 });
    const texts = words.map(explain);
    if (flags.has("json")) {
      const asked = new Set(words.map(knownKey));
      const rows = [...fields.values()].filter(({ key }) => words.length === 0 || asked.has(key));
      const json = rows.map(({ key, group, doc, rule, defaultValue }) => ({
        key,
        group,
        meaning: doc,
        rule,
        default: defaultValue,
      }));
      process.stdout.write(`${JSON.stringify(json, null, 2)}\n`);
    } else process.stdout.write(words.length === 0 ? explainAll() : texts.join("\n"));
    return 0;
  },
};
