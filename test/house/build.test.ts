/** When dependencies and build count as current, on small projects made here. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { build, buildIsCurrent } from "../../scripts/build.mjs";
import { dependenciesAreCurrent, npmFailure } from "../../scripts/dependencies.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

let project = "";
beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), "halfbyte-build-"));
});
afterEach(() => rmSync(project, { recursive: true, force: true }));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(project, path)), { recursive: true });
  writeFileSync(join(project, path), text);
}

const read = (path: string) => readFileSync(join(project, path), "utf8");

describe("build", () => {
  beforeEach(() => {
    symlinkSync(join(root, "node_modules"), join(project, "node_modules"));
    for (const file of ["tsconfig.json", "tsconfig.build.json"]) write(file, readFileSync(join(root, file), "utf8"));
    write("package.json", '{"type":"module"}');
    write("src/cli/main.ts", 'import { one } from "../one.ts";\nexport const two = one + 1;\n');
    write("src/one.ts", "export const one: number = 1;\n");
  });

  it("follows the sources' content, and removes what has no source any more", async () => {
    expect(buildIsCurrent(project)).toBe(false);
    await build(project);
    expect(buildIsCurrent(project)).toBe(true);
    expect(read("dist/cli/main.js")).toContain('from "../one.js"');

    write("src/one.ts", "export const one: number = 11;\n");
    expect(buildIsCurrent(project)).toBe(false);
    await build(project);
    expect(read("dist/one.js")).toContain("11");

    write("src/cli/main.ts", "export const two = 2;\n");
    rmSync(join(project, "src/one.ts"));
    await build(project);
    expect(existsSync(join(project, "dist/one.js"))).toBe(false);
    expect(existsSync(join(project, "dist/one.d.ts"))).toBe(false);
    expect(buildIsCurrent(project)).toBe(true);
  });

  it("distrusts a build that was interrupted", async () => {
    await build(project);
    rmSync(join(project, "dist/.build-stamp"));
    rmSync(join(project, "dist/one.js"));
    expect(buildIsCurrent(project)).toBe(false);
    await build(project);
    expect(existsSync(join(project, "dist/one.js"))).toBe(true);
  });

  it("fails with the compiler's words and is not taken for done", async () => {
    write("src/one.ts", 'export const one: number = "1";\n');
    await expect(build(project)).rejects.toMatchObject({
      code: "E_BUILD",
      detail: expect.stringContaining("src/one.ts(1,14)"),
    });
    expect(buildIsCurrent(project)).toBe(false);
  });
});

describe("dependenciesAreCurrent", () => {
  const entry = (version: string, more = {}) => ({ version, integrity: `sha512-${version}`, ...more });
  const lock = (packages: object) => JSON.stringify({ packages: { "": { name: "x" }, ...packages } });

  beforeEach(() => {
    write(
      "package-lock.json",
      lock({
        "node_modules/a": entry("1.0.0"),
        "node_modules/b": entry("2.0.0", { dev: true }),
        "node_modules/for-another-system": entry("3.0.0", { optional: true }),
      }),
    );
  });

  it.each([
    ["nothing is installed", undefined, false],
    ["all is installed", { "node_modules/a": entry("1.0.0"), "node_modules/b": entry("2.0.0") }, true],
    ["a version differs", { "node_modules/a": entry("1.0.1"), "node_modules/b": entry("2.0.0") }, false],
    ["the development packages are missing", { "node_modules/a": entry("1.0.0") }, false],
  ])("where %s", (_, packages, current) => {
    if (packages !== undefined) write("node_modules/.package-lock.json", JSON.stringify({ packages }));
    expect(dependenciesAreCurrent(project)).toBe(current);
  });

  it("holds for this very project", () => {
    expect(dependenciesAreCurrent(root)).toBe(true);
  });

  it("tells a missing network from other failures", () => {
    expect(npmFailure("x", "npm error code ENOTFOUND\nnpm error network request failed").code).toBe("E_NETWORK");
    expect(npmFailure("x", "npm error code EINTEGRITY").code).toBe("E_NPM");
  });
});
