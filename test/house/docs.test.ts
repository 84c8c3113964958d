/** The documentation: every command in it is one that can be typed, every link leads somewhere, every error code exists. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parseArguments } from "../../src/cli/arguments.ts";
import { commands } from "../../src/cli/command.ts";
import { configOf } from "../../src/cli/settings.ts";
import { topicNames } from "../../src/cli/topics.ts";
import { explainKey } from "../../src/config/index.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const pages = ["README.md", ...readdirSync(join(root, "docs")).map((name) => join("docs", name))].filter((name) =>
  name.endsWith(".md"),
);
const read = (page: string) => readFileSync(join(root, page), "utf8");

/** The words of a shell line; quotes keep words together, a comment ends it. */
function wordsOf(line: string): string[] {
  const words = line.match(/(?:'[^']*'|"[^"]*"|[^\s'"#]|(?<=\S)#)+|#.*/g) ?? [];
  return words.filter((word) => !word.startsWith("#")).map((word) => word.replace(/['"]/g, ""));
}

/** Lines of code blocks, fenced or indented, that start Halfbyte, without its name. */
function commandsIn(page: string): string[][] {
  const text = read(page);
  const fenced = [...text.matchAll(/^```\w*\n([\s\S]*?)^```/gm)].map(([, block]) => block!);
  const indented = text.match(/^ {4}(?:bin\/)?halfbyte [^─\n]*$/gm) ?? [];
  return [...fenced, ...indented]
    .flatMap((block) => block.replaceAll("\\\n", " ").split("\n"))
    .map(wordsOf)
    .filter(([program]) => program === "halfbyte" || program === "bin/halfbyte")
    .map((words) => words.slice(1));
}

const typed = pages.flatMap((page) => commandsIn(page).map((words) => ({ page, words, line: words.join(" ") })));

describe("the documentation", () => {
  it("shows commands", () => {
    expect(typed.length).toBeGreaterThan(8);
  });

  it.each(typed)("has a command that can be typed in $page: $line", async ({ words: [name = "", ...args] }) => {
    const entry = commands.find((command) => command.name === name);
    expect(entry, `halfbyte ${name}`).toBeDefined();
    // A file that the page speaks of is not there.
    const { settings: all, words } = parseArguments(args, { maxWords: args.length, flags: ["demo"] });
    const { config: _, ...settings } = all;
    if (name === "train") await configOf(words[0], settings);
    if (name === "explain")
      for (const word of words) expect(explainKey(word) ?? topicNames().includes(word), word).toBeTruthy();
    if (name === "config" && words[0] === "show") await configOf(words[1], settings, { draft: true });
    if (name === "tokenizer") {
      const { topics } = await entry!.load();
      const { help } = await topics![words[0]!]!();
      expect(words).toHaveLength(1);
      for (const key of Object.keys(settings)) expect(help).toContain(`  ${key} `);
    }
  });

  it.each(pages)("has no link to nowhere in %s", (page) => {
    const links = [...read(page).matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, target]) => target!);
    const local = links.filter((target) => !/^\w+:/.test(target));
    const missing = local.map((target) => join(root, dirname(page), target)).filter((file) => !existsSync(file));
    expect(missing.map((file) => relative(root, file))).toEqual([]);
  });

  it("lists every page", () => {
    for (const page of pages.filter((name) => name.startsWith("docs/") && name !== "docs/README.md")) {
      expect(read("docs/README.md")).toContain(`(${page.slice("docs/".length)})`);
    }
  });

  it("explains every error code, and none that does not exist", () => {
    const sources = ["src", "scripts"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8")),
    );
    const codes = [...new Set(read("docs/errors.md").match(/(?<=`)E_[A-Z0-9_]+(?=`)/g))];
    const thrown = new Set(sources.flatMap((text) => text.match(/(?<=")E_[A-Z0-9_]+(?=")/g) ?? []));
    expect([...thrown].filter((code) => !codes.includes(code))).toEqual([]);
    expect(codes.filter((code) => !sources.some((text) => text.includes(`"${code}"`)))).toEqual([]);
  });
});
