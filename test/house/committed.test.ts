/** What may not be in a committed file: paths of a machine, hosts and download addresses of registries. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const isClone = existsSync(join(root, ".git"));

/** Written in pieces, so that this file holds none of them. */
const forbidden: readonly { readonly what: string; readonly pattern: RegExp }[] = [
  {
    what: "a path of a machine",
    pattern: new RegExp(["/work", "/root", "/Users/\\w+", "/home/\\w+"].map((p) => `${p}/`).join("|")),
  },
  {
    what: "a registry's host",
    pattern: new RegExp(
      ["registry\\.npmjs", "registry\\.yarnpkg", "pypi\\.org", "files\\.python" + "hosted", "deb\\.debian"].join("|"),
    ),
  },
  { what: "a download address", pattern: new RegExp(`https?${":"}//[^\\s"']+\\.(whl|tgz|tar\\.gz)\\b`) },
];

function faultsIn(text: string): string[] {
  return forbidden.filter(({ pattern }) => pattern.test(text)).map(({ what }) => what);
}

function committedTexts(): { path: string; text: string }[] {
  return execFileSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" })
    .split("\0")
    .filter((path) => path !== "" && existsSync(join(root, path)))
    .map((path) => ({ path, bytes: readFileSync(join(root, path)) }))
    .filter(({ bytes }) => !bytes.subarray(0, 8192).includes(0))
    .map(({ path, bytes }) => ({ path, text: bytes.toString("utf8") }));
}

describe.skipIf(!isClone)("committed files (in a clone)", () => {
  it("name no machine's paths and no registry's addresses", () => {
    const found = committedTexts().flatMap(({ path, text }) => faultsIn(text).map((what) => `${path}: ${what}`));
    expect(found).toEqual([]);
  });

  it("hold nothing that a build or a run makes", () => {
    const made = committedTexts().filter(({ path }) => /^(dist|node_modules|coverage|runs)\//.test(path));
    expect(made.map(({ path }) => path)).toEqual([]);
  });
});

describe("the packages", () => {
  it("have a lock file without addresses, so that any registry or mirror serves", () => {
    expect(readFileSync(join(root, "package-lock.json"), "utf8")).not.toContain('"resolved"');
  });

  it("are pinned exactly", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const versions = Object.entries<string>({ ...manifest.dependencies, ...manifest.devDependencies });
    expect(versions.filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  });
});

describe("the rules themselves", () => {
  it.each([
    ["/wo" + "rk/main/src", "a path of a machine"],
    ["from registry.npm" + "js.org", "a registry's host"],
    ["https:" + "//example.com/a/b-1.0.whl", "a download address"],
  ])("find %s", (text, what) => {
    expect(faultsIn(text)).toEqual([what]);
  });

  it("let other text be", () => {
    expect(faultsIn("the work/ folder, https://example.com/docs, ~/.cache/halfbyte")).toEqual([]);
  });
});
