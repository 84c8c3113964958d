/** `halfbyte config`: shows settings resolved, and what two sets of them differ in. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { type Config, type Difference, differences, fields, showConfig } from "../config/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import { configOf, sourceHelp } from "./settings.ts";

export const command: Command = {
  help: `Usage: halfbyte config show [PRESET] [key=value …] [--json]
       halfbyte config diff A B [--json]

show prints every setting that has an effect, as a run would have it. diff prints the settings in which A and B differ;
each is a PRESET, or a PRESET with settings in one word: "llama-tiny steps=5".

  PRESET                  ${sourceHelp}
  --json                  show: the settings as an object, which \`config=FILE\` reads again; diff: the differences as an array,
                          null where a setting has no effect

Example: halfbyte config show llama3-8b quantization=te_nvfp4
         halfbyte config diff llama-tiny "llama-tiny quantization=nvfp4"
         halfbyte config diff runs/a runs/b
`,
  async run([action = "", ...args]) {
    if (action === "show") return show(args);
    if (action === "diff") return diff(args);
    const near = nearest(action, ["show", "diff"]);
    const said = action === "" ? "no action given" : `unknown action "${action}"`;
    throw new UserError(
      "E_ARGUMENT",
      `${said}; ${near === undefined ? "known are show and diff" : `did you mean "${near}"?`}`,
    );
  },
};

async function show(args: readonly string[]): Promise<number> {
  const { words, settings, flags } = parseArguments(args, { maxWords: 1 });
  const config = await configOf(words[0], settings, { draft: true });
  if (flags.has("json")) process.stdout.write(`${JSON.stringify(config.keys, null, 2)}\n`);
  else process.stdout.write(`${showConfig(config)}${config.notes.map((note) => `note: ${note}\n`).join("")}`);
  return 0;
}

async function diff(args: readonly string[]): Promise<number> {
  const sides = args.filter((arg) => arg !== "--json");
  const [a, b] = sides;
  if (a === undefined || b === undefined || sides.length > 2) {
    throw new UserError(
      "E_ARGUMENT",
      `diff compares two sets of settings; got ${sides.length}: ${sides.join(", ") || "none"}`,
    );
  }
  const found = differences((await sideOf(a)).keys, (await sideOf(b)).keys);
  if (args.includes("--json")) {
    const rows = found.map(({ key, before, after }) => ({
      key,
      group: fields().get(key)!.group,
      a: before ?? null,
      b: after ?? null,
    }));
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
  } else process.stdout.write(found.length === 0 ? "no difference\n" : differenceTable(found, a, b));
  return 0;
}

/** "PRESET key=value …" resolved. @throws UserError that says which side is wrong */
async function sideOf(text: string): Promise<Config> {
  const { words, settings } = parseArguments(
    text.split(/\s+/).filter((part) => part !== ""),
    { maxWords: 1 },
  );
  return configOf(words[0], settings, { draft: true });
}

/** Aligned columns under the names of both sides, by groups; – where a key has no effect. */
export function differenceTable(found: readonly Difference[], a: string, b: string): string {
  const show = (value: Difference["before"]) => (value === undefined ? "–" : String(value) || '""');
  const rows = found.map(({ key, before, after }) => ({
    group: fields().get(key)!.group,
    cells: [key, show(before), show(after)],
  }));
  const widths = [0, 1].map((column) =>
    Math.max(...[["", a, b], ...rows.map(({ cells }) => cells)].map((cells) => cells[column]!.length)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  const groups = [...new Set(rows.map(({ group }) => group))];
  return `${[
    line(["", a, b]),
    ...groups.flatMap((group) => [
      `# ${group}`,
      ...rows.filter((row) => row.group === group).map(({ cells }) => line(cells)),
    ]),
  ].join("\n")}\n`;
}
