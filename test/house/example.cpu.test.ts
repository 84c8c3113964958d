import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { ensureBuilt } from "../train/halfbyte.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const examples = readdirSync(`${root}/examples`);

const outputOf = (file: string): string =>
  execFileSync(process.execPath, ["--import", "tsx", `${root}/examples/${file}`], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: "3" },
  });

// They import the package by its name, which is the build.
beforeAll(ensureBuilt);

describe("examples", () => {
  it("are in the README as they are in the files", () => {
    const readme = readFileSync(`${root}/README.md`, "utf8");
    const shown = readFileSync(`${root}/examples/linearNvfp4.ts`, "utf8");
    expect(readme).toContain(`\`\`\`ts\n${shown}\`\`\``);
  });

  it.each(examples)("%s is short, and of public names only", (file) => {
    const text = readFileSync(`${root}/examples/${file}`, "utf8");
    expect(text.split("\n").length - 1).toBeLessThan(60);
    const imported = [...text.matchAll(/from "([^"]+)"/g)].map((match) => match[1]);
    expect(imported.filter((name) => name !== "halfbyte" && !name!.startsWith("node:"))).toEqual([]);
  });

  it.each(examples.filter((file) => file !== "customOp.ts"))("%s runs, and its loss falls", (file) => {
    const losses = [...outputOf(file).matchAll(/loss ([\d.e-]+)/g)].map((match) => Number(match[1]));
    expect(losses.length).toBeGreaterThan(2);
    expect(losses.at(-1)).toBeLessThan(0.5 * losses[0]!);
  });

  it("customOp.ts runs, and agrees with the interpreter and with differences", () => {
    const errors = [...outputOf("customOp.ts").matchAll(/: at most ([\d.e+-]+)/g)].map((match) => Number(match[1]));
    expect(errors).toHaveLength(3);
    for (const error of errors) expect(error).toBeLessThan(1e-7);
  });
});
