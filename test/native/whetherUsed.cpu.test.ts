/** Whether programs call native kernels: what the environment says, what becomes of a damaged library, memory that is short, and resumed runs. */
import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { Client, nativeKernels } from "../../src/pjrt/index.ts";
import { cacheFolder } from "../../src/pjrt/plugin.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "../train/halfbyte.ts";
import { tinyKeys } from "../train/tinyRun.ts";

const clients: Client[] = [];
afterEach(() => vi.unstubAllEnvs());
afterAll(async () => {
  for (const client of clients) await client.destroy();
});

/** What a new client finds. */
async function found(): Promise<string> {
  const client = new Client();
  clients.push(client);
  const kernels = await nativeKernels(client);
  return kernels.used ? "used" : kernels.reason;
}

const usual = await found();

describe("HALFBYTE_NATIVE_KERNELS", () => {
  it.each(["0", "off", "false"])("%s leaves everything to XLA", async (value) => {
    vi.stubEnv("HALFBYTE_NATIVE_KERNELS", value);
    expect(await found()).toBe(`HALFBYTE_NATIVE_KERNELS is ${value}`);
  });

  it.each(["", "1", "auto", "on", "true"])("%j uses what is there", async (value) => {
    vi.stubEnv("HALFBYTE_NATIVE_KERNELS", value);
    expect(await found()).toBe(usual);
  });

  it("of no meaning is refused", async () => {
    vi.stubEnv("HALFBYTE_NATIVE_KERNELS", "none");
    await expect(found()).rejects.toMatchObject({
      code: "E_NATIVE",
      message: expect.stringMatching(/HALFBYTE_NATIVE_KERNELS is "none"; it may be 0, off, false .* 1, on, true, auto/),
    });
  });
});

describe.skipIf(usual !== "used")("a library", () => {
  it.each([
    ["cut off", (path: string) => truncateSync(path, 5000)],
    ["changed", (path: string) => writeFileSync(path, "x", { flag: "a" })],
  ])("that was %s is not loaded, and the reason says how to build it again", async (_, damage) => {
    const cache = temporaryFolder();
    cpSync(join(cacheFolder(), "native"), join(cache, "native"), { recursive: true });
    const entries = readdirSync(join(cache, "native"), { withFileTypes: true });
    for (const { name } of entries.filter((entry) => entry.isDirectory())) {
      const folder = join(cache, "native", name);
      for (const file of readdirSync(folder).filter((file) => file.endsWith(".so"))) damage(join(folder, file));
    }
    const client = new Client();
    clients.push(client);
    vi.stubEnv("HALFBYTE_CACHE", cache);
    expect(await nativeKernels(client)).toEqual({
      used: false,
      reason: expect.stringMatching(
        /libhalfbyte_kernels\.so is not what was built: run `npm run setup` .* builds it again/,
      ),
    });
  });
});

describe.skipIf(usual !== "used")("a kernel without memory for its temporaries", () => {
  beforeAll(ensureBuilt);

  it("fails as one whose memory is short", () => {
    const index = new URL("../../dist/index.js", import.meta.url);
    const status = new URL("../../dist/pjrt/index.js", import.meta.url);
    const program = `
      import { execFileSync } from "node:child_process";
      import { readFileSync } from "node:fs";
      import { Client, causalAttention, hostArray, jit, vjp } from ${JSON.stringify(index.href)};
      import { isOutOfMemory } from ${JSON.stringify(status.href)};
      const client = new Client();
      const attend = (ct, q, k, v) => vjp((q, k, v) => causalAttention({ q, k, v }), q, k, v).pullback(ct);
      const f = jit(attend, { client });
      const inputs = (time) => Array.from({ length: 4 }, () => hostArray([1, time, 1, 256], "bfloat16", new Uint16Array(time * 256)));
      await f(...inputs(64));
      // The backward pass takes 60 MB of temporaries.
      const large = inputs(16384);
      await f.compile(...large);
      const [, pages] = /VmSize:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"));
      let said = "";
      // Too little for XLA's own results, 24 MB, fails there; how much is in holes of the heap differs.
      for (let room = 16; said === "" || /Out of memory allocating/.test(said); room += 16) {
        execFileSync("prlimit", ["--pid", String(process.pid), "--as=" + (Number(pages) * 1024 + (room << 20)) + ":"]);
        try {
          const results = await f(...large);
          for (const x of results) await x.toHost();
          said = "nothing";
        } catch (error) {
          said = isOutOfMemory(error) + " " + error.message.split("\\n")[0];
        }
      }
      console.log(said);
      process.exit(0);
    `;
    const said = execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
    expect(said).toMatch(/^true .*none for the temporaries of a native kernel/);
  });
});

describe.skipIf(usual !== "used")("a resumed run", () => {
  beforeAll(ensureBuilt);

  it("goes on with other kernels or none, and says so in one line", async () => {
    const keys = [...tinyKeys, "checkpoint_period=2", `base_output_directory=${temporaryFolder()}`, "run_name=a"];
    const train = async (...more: string[]) => {
      const { exitCode, stdout, stderr } = await halfbyte(["train", ...keys, ...more]);
      expect(exitCode, stderr).toBe(0);
      return stdout.split("\n").filter((line) => line.includes("native kernels"));
    };
    const change = "the run goes on with other native kernels:";
    expect(await train("steps=2")).toEqual([]);
    expect(await train("steps=4", "native_kernels=off")).toEqual([
      expect.stringMatching(`${change} avx\\w+ [0-9a-f]{12} until now, none from here on \\(native_kernels is off\\)`),
    ]);
    vi.stubEnv("HALFBYTE_NATIVE_KERNELS", "0");
    expect(await train("steps=6", "native_kernels=auto")).toEqual([]);
    vi.unstubAllEnvs();
    expect(await train("steps=8", "native_kernels=auto")).toEqual([
      expect.stringMatching(`${change} none until now, avx\\w+ [0-9a-f]{12} from here on; results differ in rounding`),
    ]);
  });
});
