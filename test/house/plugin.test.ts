/** The plugin's installation: pinned hashes are checked by the real pip (on a wheel made here), failures are one sentence with a fix. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  checkPlatform,
  installPlugin,
  mainPlugin,
  pipFailure,
  pluginFolder,
  pluginIsInstalled,
  secondPlugin,
} from "../../scripts/plugin.mjs";
import { defaultPlugin } from "../../src/pjrt/plugin.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "halfbyte-plugin-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const oneSentence = /^[^\n]+[.]$/;

/** A wheel with one "library" in it, and the plugin record whose requirements file pins the given hash (default: the right one). */
function tinyPlugin(pinned?: string) {
  const files = {
    "tiny_plugin/plugin.so": "not really a library",
    "tiny_plugin-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.0\n",
    "tiny_plugin-1.0.dist-info/WHEEL":
      "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny_plugin-1.0.dist-info/RECORD":
      "tiny_plugin/plugin.so,,\ntiny_plugin-1.0.dist-info/METADATA,,\ntiny_plugin-1.0.dist-info/WHEEL,,\ntiny_plugin-1.0.dist-info/RECORD,,\n",
  };
  const content = join(folder, "content");
  const index = join(folder, "index");
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(content, path, ".."), { recursive: true });
    writeFileSync(join(content, path), text);
  }
  mkdirSync(index, { recursive: true });
  const wheel = join(index, "tiny_plugin-1.0-py3-none-any.whl");
  execFileSync("python3", ["-m", "zipfile", "-c", wheel, ...readdirSync(content)], { cwd: content });
  const sha256 = pinned ?? createHash("sha256").update(readFileSync(wheel)).digest("hex");
  const requirements = join(folder, "requirements.txt");
  writeFileSync(requirements, `--no-index\n--find-links ${index}\ntiny-plugin==1.0 --hash=sha256:${sha256}\n`);
  return {
    package: "tiny-plugin",
    version: "1.0",
    requirements,
    library: "tiny_plugin/plugin.so",
    wheelBytes: 1000,
    libraryBytes: 1000,
  };
}

describe("installPlugin", () => {
  it("installs by pip, hash-checked, and records the library", async () => {
    const plugin = tinyPlugin();
    const cache = join(folder, "cache");
    expect(pluginIsInstalled(cache, plugin)).toBe(false);
    await installPlugin(cache, plugin);
    expect(pluginIsInstalled(cache, plugin)).toBe(true);
    const record = JSON.parse(readFileSync(join(pluginFolder(cache, plugin), "halfbyte.json"), "utf8"));
    expect(record).toEqual({
      package: "tiny-plugin",
      version: "1.0",
      library: "tiny_plugin/plugin.so",
      sha256: createHash("sha256").update("not really a library").digest("hex"),
      bytes: 20,
    });
    expect(readdirSync(join(cache, "plugins"))).toEqual(["tiny-plugin-1.0"]);
  });

  it("refuses a wheel with another hash", async () => {
    const plugin = tinyPlugin("0".repeat(64));
    const cache = join(folder, "cache");
    await expect(installPlugin(cache, plugin)).rejects.toMatchObject({
      code: "E_HASH",
      message: expect.stringMatching(oneSentence),
    });
    expect(readdirSync(join(cache, "plugins"))).toEqual([]);
  });

  it("sees a library that was cut off", async () => {
    const plugin = tinyPlugin();
    const cache = join(folder, "cache");
    await installPlugin(cache, plugin);
    writeFileSync(join(pluginFolder(cache, plugin), plugin.library), "not");
    expect(pluginIsInstalled(cache, plugin)).toBe(false);
    await installPlugin(cache, plugin);
    expect(pluginIsInstalled(cache, plugin)).toBe(true);
  });

  it("installs the pinned plugin", async (context) => {
    const cache = join(folder, "cache");
    try {
      await installPlugin(cache, mainPlugin);
    } catch (error) {
      context.skip((error as { code?: string }).code === "E_NETWORK", "no network: the plugin can't be fetched");
      throw error;
    }
    expect(pluginIsInstalled(cache, mainPlugin)).toBe(true);
  });

  it("pins what the binding looks for", () => {
    expect(mainPlugin).toMatchObject(defaultPlugin);
    for (const plugin of [mainPlugin, secondPlugin]) {
      const pin = new RegExp(`^${plugin.package}==${plugin.version} --hash=sha256:[0-9a-f]{64}$`, "m");
      expect(readFileSync(plugin.requirements, "utf8")).toMatch(pin);
    }
  });
});

describe("failures", () => {
  it.each([
    ["darwin", "arm64", undefined, "macOS on arm64"],
    ["win32", "x64", undefined, "Windows on x64"],
    ["linux", "arm64", "2.36", "Linux on arm64"],
    ["linux", "x64", undefined, "a C library other than glibc"],
    ["linux", "x64", "2.17", "glibc 2.17"],
  ] as const)("on %s %s with glibc %s: one sentence that names it and what to do", (platform, arch, glibc, named) => {
    const check = () => checkPlatform({ platform, arch, glibc });
    expect(check).toThrow(named);
    expect(check).toThrow(oneSentence);
    expect(check).toThrow("HALFBYTE_PJRT_PLUGIN");
    expect(check).toThrow("WSL2");
  });

  it("accepts Linux on x86-64", () => {
    expect(() => checkPlatform({ platform: "linux", arch: "x64", glibc: "2.27" })).not.toThrow();
    expect(() => checkPlatform({ platform: "linux", arch: "x64", glibc: "2.41" })).not.toThrow();
  });

  it.each([
    ["/usr/bin/python3: No module named pip", "E_NO_PIP"],
    ["ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "E_HASH"],
    ["ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "E_SPACE"],
    [
      "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution found",
      "E_NETWORK",
    ],
    ["ERROR: No matching distribution found for lammps-jax-pjrt-cpu==0.11.2", "E_PIP"],
    ["something new", "E_PIP"],
  ])("pip's %s", (output, code) => {
    const failure = pipFailure(output);
    expect(failure.code).toBe(code);
    expect(failure.message).toMatch(oneSentence);
    expect(failure.detail).toBe(output);
  });

  it("tells a real pip without network from other failures", async () => {
    // Nothing listens on the discard port. Never assign process.env itself: other files' stubs hold the original object.
    vi.stubEnv("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
    vi.stubEnv("PIP_NO_CACHE_DIR", "1");
    vi.stubEnv("PIP_FIND_LINKS", "");
    try {
      await expect(installPlugin(join(folder, "cache"), mainPlugin)).rejects.toMatchObject({ code: "E_NETWORK" });
    } finally {
      vi.unstubAllEnvs();
    }
    expect(existsSync(pluginFolder(join(folder, "cache"), mainPlugin))).toBe(false);
  });
});
