import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { dot, hostArray, spec, type Tensor } from "../../src/core/index.ts";
import { listEntries } from "../../src/jit/cacheEntries.ts";
import { compileKey } from "../../src/jit/compileCache.ts";
import { clearCompiled, compiledCache, fetchTree, jit, putTree } from "../../src/jit/index.ts";
import { type Client, canSerialize, defaultClient } from "../../src/pjrt/index.ts";

let client: Client;
let cache = "";
// The plugin comes from the cache of this machine; only then does the folder change.
beforeAll(() => {
  client = defaultClient();
});
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), "halfbyte-compiled-"));
  vi.stubEnv("HALFBYTE_CACHE", cache);
  vi.stubEnv("HALFBYTE_COMPILE_CACHE", "100MB");
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  rmSync(cache, { recursive: true, force: true });
});

const array = (...values: number[]) => hostArray([values.length], "float32", Float32Array.from(values));
/** Each call makes a new compiled function, which knows nothing of the others. */
const updating = () =>
  jit((state: Tensor, x: Tensor) => state.mul(0.5).add(x.exp()), { donate: [0], name: "updating" });
const shape = spec([3], "float32");
const entryPath = () => listEntries(join(cache, "compiled"))[0]!.path;

describe("the cache of compiled programs", () => {
  it("gives the next one the same program: values, outputs, memory and donation", async () => {
    const [first, second] = [updating(), updating()];
    const made = await first.compile(shape, shape);
    const loaded = await second.compile(shape, shape);
    expect([made.origin.deserialized, loaded.origin.deserialized]).toEqual([false, true]);
    expect(loaded.outputs).toEqual(made.outputs);
    expect(loaded.memoryStats()).toEqual(made.memoryStats());
    const results = [];
    for (const f of [first, second]) {
      const state = await putTree(array(2, 4, 6), client);
      const out = await f(state, array(0, 1, 2));
      expect(state.isLive).toBe(false);
      results.push((await fetchTree(out)).data);
      out.dispose();
      f.dispose();
    }
    expect(results[1]).toEqual(results[0]);
  });

  it("compiles a damaged entry again, without an error, and keeps the new one", async () => {
    const origins = [];
    for (const damage of [undefined, (file: Buffer) => file.subarray(0, -9), undefined]) {
      if (damage) writeFileSync(entryPath(), damage(readFileSync(entryPath())));
      const f = updating();
      origins.push((await f.compile(shape, shape)).origin.deserialized);
      f.dispose();
    }
    expect(origins).toEqual([false, false, true]);
  });

  it("compiles again where the plugin refuses the bytes", async () => {
    vi.spyOn(client, "deserialize").mockRejectedValueOnce(new Error("damaged"));
    for (const deserialized of [false, false, true]) {
      const f = updating();
      expect((await f.compile(shape, shape)).origin.deserialized).toBe(deserialized);
      f.dispose();
    }
  });

  it("costs only itself where it can't be written, and says so once", async () => {
    writeFileSync(join(cache, "compiled"), "a file where the folder should be");
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    for (let i = 0; i < 2; i++) {
      const f = updating();
      const out = await f(array(1, 2, 3), array(1, 2, 3));
      expect((await fetchTree(out)).data[0]).toBeCloseTo(0.5 + Math.E, 5);
      out.dispose();
      f.dispose();
    }
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0]![0]).toMatch(/^compiled programs are not kept for the next run: /);
  });

  it("is off where HALFBYTE_COMPILE_CACHE says so", async () => {
    vi.stubEnv("HALFBYTE_COMPILE_CACHE", "off");
    const f = updating();
    await f.compile(shape, shape);
    f.dispose();
    expect(compiledCache()).toMatchObject({ entries: 0, limit: "off" });
  });

  it("is shown and cleared", async () => {
    const f = updating();
    await f.compile(shape, shape);
    f.dispose();
    const { folder, entries, bytes, limit } = compiledCache();
    expect({ folder, entries, limit }).toEqual({ folder: join(cache, "compiled"), entries: 1, limit: 100e6 });
    expect(clearCompiled()).toEqual({ folder, entries, bytes });
    expect(compiledCache().entries).toBe(0);
  });
});

describe("a compilation that dumps files", () => {
  it("happens, whatever is in the cache", async () => {
    const dumps = { name: "updating", compileOptions: { envOverrides: { xla_dump_to: join(cache, "dump") } } };
    for (let i = 0; i < 2; i++) {
      const f = jit((x: Tensor) => x.exp(), dumps);
      expect((await f.compile(shape)).origin.deserialized).toBe(false);
      f.dispose();
    }
    expect(compiledCache().entries).toBe(0);
  });
});

describe("the key", () => {
  it("changes with program, options, flags and threads, and with nothing else", () => {
    const key = (text = "module", options = {}) => compileKey(client, text, options);
    const plain = key();
    expect(key()).toBe(plain);
    const others = [key("module "), key("module", { envOverrides: { xla_cpu_prefer_vector_width: 256 } })];
    for (const [name, value] of [
      ["XLA_FLAGS", "--xla_cpu_ftz=false"],
      ["NPROC", "1"],
    ] as const) {
      vi.stubEnv(name, value);
      others.push(key());
      vi.unstubAllEnvs();
    }
    expect(new Set([plain, ...others]).size).toBe(5);
  });
});

describe("a program with oneDNN's products", () => {
  it("is told by its text and by options that make the compiler use them", () => {
    expect(canSerialize("module")).toBe(true);
    expect(canSerialize('call_target_name = "__onednn$matmul"')).toBe(false);
    expect(canSerialize("module", { envOverrides: { xla_cpu_use_onednn: true } })).toBe(false);
    vi.stubEnv("XLA_FLAGS", "--xla_cpu_experimental_onednn_custom_call=true");
    expect(canSerialize("module")).toBe(false);
  });

  it("is not kept, since the plugin can't serialize it, and is refused before it ends the process", async () => {
    const f = jit((a: Tensor, b: Tensor) => dot(a, b), { name: "product" });
    const matrix = spec([16, 16], "bfloat16");
    const executable = await f.compile(matrix, matrix);
    const { stablehlo } = await f.lower(matrix, matrix);
    if (stablehlo.includes("__onednn$")) {
      expect(executable.origin.serializable).toBe(false);
      expect(() => executable.serialize()).toThrow(/can't be serialized/);
      expect(compiledCache().entries).toBe(0);
    }
    f.dispose();
  });
});
