/** The folders of src are stages: a file imports only from earlier stages or its own folder. This test is the rule. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const src = join(root, "src");

/** In reading order; a new stage gets its place here. */
const stages = [
  ["base", "core", "autodiff", "sharding", "lower", "pjrt", "jit"],
  ["quant", "nn", "optim", "models", "gguf", "jinja", "tokenizers", "data", "checkpoint", "metrics"],
  ["train", "eval", "study", "plan", "config", "presets", "convert", "cli", "dashboard"],
].flat();

/** Pure graph code: these build Tensors and know nothing of compiling or running them. */
const pureStages = ["quant", "nn", "optim", "models"];
const machinery = ["lower", "pjrt", "jit"];

const forbiddenFolders = ["utils", "util", "common", "helpers", "helper", "misc", "shared", "lib"];
const maxLines = 600;

/** Packages that one folder alone may import. */
const keptTo: Readonly<Record<string, string>> = { koffi: "pjrt" };

const packageJson = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  dependencies: Record<string, string>;
};

interface SourceFile {
  /** Path from src, with "/". */
  readonly path: string;
  readonly text: string;
}

function sourceFiles(): SourceFile[] {
  return readdirSync(src, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => ({ path: relative(src, file).split(sep).join("/"), text: readFileSync(file, "utf8") }));
}

function importsOf({ text }: SourceFile): string[] {
  return ts.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName);
}

const stageOf = (path: string): string => (path.includes("/") ? path.slice(0, path.indexOf("/")) : "");

/** What is wrong with the import of `specifier` in src/`path`, or undefined. */
function importFault(path: string, specifier: string): string | undefined {
  const stage = stageOf(path);
  if (!specifier.startsWith(".")) {
    if (specifier.startsWith("node:")) return undefined;
    const name = specifier.startsWith("@") ? specifier.split("/", 2).join("/") : specifier.split("/")[0]!;
    if (!(name in packageJson.dependencies)) return `"${name}" is no runtime dependency`;
    const home = keptTo[name];
    return home !== undefined && home !== stage ? `"${name}" belongs to src/${home} alone` : undefined;
  }
  if (!specifier.endsWith(".ts")) return `"${specifier}" must end in .ts`;
  const target = relative(src, resolve(src, dirname(path), specifier))
    .split(sep)
    .join("/");
  if (target.startsWith("..")) return `"${specifier}" leaves src`;
  const targetStage = stageOf(target);
  // The package's own entry, src/index.ts, is above all stages.
  if (stage === "" || stage === targetStage) return undefined;
  if (targetStage === "") return `a stage can't import src/${target}`;
  if (stages.indexOf(targetStage) > stages.indexOf(stage)) return `${stage} comes before ${targetStage}`;
  if (pureStages.includes(stage) && machinery.includes(targetStage)) {
    return `${stage} is pure graph code and can't import ${targetStage}`;
  }
  return undefined;
}

/** What is wrong with the place of src/`path`, or undefined. */
function placeFault(path: string): string | undefined {
  const folders = path.split("/").slice(0, -1);
  const forbidden = folders.find((folder) => forbiddenFolders.includes(folder));
  if (forbidden !== undefined) return `no folder is named ${forbidden}: name it after what it does`;
  if (folders[0] !== undefined && !stages.includes(folders[0])) return `src/${folders[0]} is not among the stages`;
  if (folders.length > 1 && folders.join("/") !== "core/ops") return "only core/ops may be deeper than one folder";
  return undefined;
}

const files = sourceFiles();
const typescript = files.filter(({ path }) => path.endsWith(".ts"));

describe("the layers of src", () => {
  it("has sources to look at", () => {
    expect(typescript.length).toBeGreaterThan(3);
  });

  it("imports only from earlier stages", () => {
    const faults = typescript.flatMap((file) =>
      importsOf(file).flatMap((specifier) => {
        const fault = importFault(file.path, specifier);
        return fault === undefined ? [] : [`src/${file.path}: ${fault}`];
      }),
    );
    expect(faults).toEqual([]);
  });

  it("keeps to the folders", () => {
    const faults = files.flatMap(({ path }) => {
      const fault = placeFault(path);
      return fault === undefined ? [] : [`src/${path}: ${fault}`];
    });
    expect(faults).toEqual([]);
  });

  it(`has no file of more than ${maxLines} lines`, () => {
    const long = typescript
      .map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }))
      .filter(({ lines }) => lines > maxLines);
    expect(long).toEqual([]);
  });
});

describe("the rules themselves", () => {
  it.each([
    ["core/tensor.ts", "../autodiff/grad.ts", "core comes before autodiff"],
    ["nn/linear.ts", "../jit/index.ts", "nn is pure graph code and can't import jit"],
    ["train/loop.ts", "koffi", '"koffi" belongs to src/pjrt alone'],
    ["train/loop.ts", "vitest", '"vitest" is no runtime dependency'],
    ["core/tensor.ts", "./dtype.js", '"./dtype.js" must end in .ts'],
    ["core/tensor.ts", "../index.ts", "a stage can't import src/index.ts"],
    ["cli/main.ts", "../../test/x.ts", '"../../test/x.ts" leaves src'],
  ])("%s must not import %s", (path, specifier, fault) => {
    expect(importFault(path, specifier)).toBe(fault);
  });

  it.each([
    ["core/ops/dot.ts", "../tensor.ts"],
    ["core/index.ts", "./ops/dot.ts"],
    ["cli/train.ts", "../config/index.ts"],
    ["pjrt/native.ts", "koffi"],
    ["train/loop.ts", "node:fs"],
    ["index.ts", "./jit/index.ts"],
  ])("%s may import %s", (path, specifier) => {
    expect(importFault(path, specifier)).toBeUndefined();
  });

  it.each(["base/utils/x.ts", "helpers/x.ts", "engine/x.ts", "nn/attention/x.ts"])("src/%s has no place", (path) => {
    expect(placeFault(path)).toBeDefined();
  });

  it.each(["index.ts", "nn/attention.ts", "core/ops/dot.ts"])("src/%s has one", (path) => {
    expect(placeFault(path)).toBeUndefined();
  });

  it("sees every form of import", () => {
    const text =
      'import a from "./a.ts";\nexport * from "./b.ts";\nconst c = await import("./c.ts");\nimport type { D } from "./d.ts";';
    expect(importsOf({ path: "x.ts", text })).toEqual(["./a.ts", "./b.ts", "./c.ts", "./d.ts"]);
  });
});
