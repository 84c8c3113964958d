import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { UserError } from "../../src/base/errors.ts";
import { Client, defaultPlugin, loadPlugin, locatePlugin, pluginIdentity } from "../../src/pjrt/index.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "halfbyte-plugin-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  rmSync(folder, { recursive: true });
});

/** The one sentence a user gets. */
function complaint(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    const { message } = error as UserError;
    expect(message).not.toContain("\n");
    expect(message.length).toBeLessThan(400);
    return message;
  }
  throw new Error("nothing was thrown");
}

const write = (name: string, content: string | Uint8Array) => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

describe("a file that is no usable plugin", () => {
  it("that is missing", () => {
    const path = join(folder, "missing.so");
    expect(complaint(() => new Client({ plugin: path }))).toBe(
      `can't read the PJRT plugin ${path}: there is no such file`,
    );
  });

  it("that is a folder", () => {
    expect(complaint(() => new Client({ plugin: folder }))).toMatch(
      /is not a file; give the path of its shared library/,
    );
  });

  it.skipIf(process.platform !== "linux")("that is no library", () => {
    const path = write("notes.txt", "some text");
    expect(complaint(() => new Client({ plugin: path }))).toMatch(
      /is not a PJRT plugin: it is not a Linux shared library/,
    );
    expect(complaint(() => new Client({ plugin: write("empty", "") }))).toMatch(/is not a Linux shared library/);
  });

  it.skipIf(process.platform !== "linux")("that is for another machine, or cut off", () => {
    const header = readFileSync(process.execPath).subarray(0, 4096);
    const other = Buffer.from(header);
    other.writeUInt16LE(process.arch === "arm64" ? 0x3e : 0xb7, 18);
    expect(complaint(() => new Client({ plugin: write("other.so", other) }))).toMatch(
      /is built for (arm64|x64); this machine is/,
    );
    expect(complaint(() => new Client({ plugin: write("cut.so", header) }))).toMatch(
      /can't load the PJRT plugin .*cut\.so/,
    );
  });

  const libm = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"].find((path) =>
    existsSync(path),
  );
  it.skipIf(libm === undefined)("that is another library", () => {
    const path = join(folder, "libm.so");
    copyFileSync(libm!, path);
    expect(complaint(() => new Client({ plugin: path }))).toBe(`${path} is not a PJRT plugin: it has no GetPjrtApi`);
  });
});

describe("finding the plugin", () => {
  it("prefers HALFBYTE_PJRT_PLUGIN", () => {
    vi.stubEnv("HALFBYTE_PJRT_PLUGIN", join(folder, "mine.so"));
    expect(locatePlugin()).toEqual({ path: join(folder, "mine.so") });
  });

  it("then takes what was installed, with its record", () => {
    vi.stubEnv("HALFBYTE_PJRT_PLUGIN", "");
    vi.stubEnv("HALFBYTE_CACHE", folder);
    const home = join(folder, "plugins", `${defaultPlugin.package}-${defaultPlugin.version}`);
    mkdirSync(home, { recursive: true });
    const record = { ...defaultPlugin, library: "lib/plugin.so", sha256: "abc" };
    writeFileSync(join(home, "halfbyte.json"), JSON.stringify(record));
    expect(locatePlugin()).toEqual({ path: join(home, "lib/plugin.so"), record });
    expect(pluginIdentity(locatePlugin())).toBe("abc");
    writeFileSync(join(home, "halfbyte.json"), '{"package":');
    expect(complaint(() => locatePlugin())).toMatch(
      /is damaged: remove its folder and run `npm run setup` in a clone, `halfbyte setup` in a project/,
    );
  });

  it("else says what to run, or on an untested platform what to set", () => {
    vi.stubEnv("HALFBYTE_PJRT_PLUGIN", "");
    vi.stubEnv("HALFBYTE_CACHE", folder);
    for (const [platform, arch] of [
      ["linux", "x64"],
      ["linux", "arm64"],
      ["darwin", "arm64"],
      ["win32", "x64"],
    ] as const) {
      vi.stubGlobal("process", Object.create(process, { platform: { value: platform }, arch: { value: arch } }));
      const said = complaint(() => locatePlugin());
      if (platform === "linux" && arch === "x64")
        expect(said).toMatch(/run `npm run setup` in a clone, `halfbyte setup` in a project/);
      else
        expect(said).toMatch(new RegExp(`no PJRT plugin is tested on ${platform}-${arch}: set HALFBYTE_PJRT_PLUGIN`));
    }
  });

  it("identifies a plugin of the user's by what changes with its content", () => {
    const path = write("plugin.so", "one");
    const first = pluginIdentity({ path });
    writeFileSync(path, "three");
    expect(pluginIdentity({ path })).not.toBe(first);
  });
});

describe("the installed plugin", () => {
  it("loads once and says what it is", () => {
    const plugin = loadPlugin();
    expect(loadPlugin()).toBe(plugin);
    expect(plugin.api.version.major).toBe(0);
    expect(plugin.api.version.minor).toBeGreaterThanOrEqual(81);
    expect(plugin.attributes.stablehlo_current_version).toHaveLength(3);
    expect(plugin.api.has("LoadedExecutable_Execute")).toBe(true);
  });
});
