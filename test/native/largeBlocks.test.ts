/** The allocator of large blocks in a program of its own, built as the set-up builds it. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readlinkSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { compile, findCompiler } from "../../scripts/compiler.mjs";
import { buildLargeBlocks, largeBlocksAreBuilt, largeBlocksLink } from "../../scripts/largeBlocks.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const found = await findCompiler();
const cache = mkdtempSync(join(tmpdir(), "halfbyte-blocks-"));
afterAll(() => rmSync(cache, { recursive: true, force: true }));

describe.skipIf("reason" in found)("the allocator of large blocks (needs a C++ compiler)", () => {
  const compiler = found as Extract<typeof found, { compiler: string }>;

  it("is built once, and again where its link is gone", async () => {
    expect(largeBlocksAreBuilt(cache, root)).toBe(false);
    await buildLargeBlocks(cache, root, compiler);
    expect(largeBlocksAreBuilt(cache, root)).toBe(true);
    expect(readlinkSync(largeBlocksLink(cache))).toMatch(/^large-blocks-[0-9a-f]{12}\/large-blocks\.so$/);
    rmSync(largeBlocksLink(cache));
    expect(largeBlocksAreBuilt(cache, root)).toBe(false);
    await buildLargeBlocks(cache, root, compiler);
    expect(existsSync(largeBlocksLink(cache))).toBe(true);
  });

  it("is built again where it is damaged: it would end every program", async () => {
    truncateSync(largeBlocksLink(cache), 4000);
    expect(largeBlocksAreBuilt(cache, root)).toBe(false);
    await buildLargeBlocks(cache, root, compiler);
    expect(largeBlocksAreBuilt(cache, root)).toBe(true);
  });

  it("reuses, joins, resizes and refuses as it says, on several threads", async () => {
    const program = join(cache, "program");
    const source = fileURLToPath(new URL("largeBlocksProgram.cpp", import.meta.url));
    await compile(compiler.compiler, ["-std=c++17", "-O1", "-pthread", "-o", program, source]);
    const env = { ...process.env, LD_PRELOAD: largeBlocksLink(cache) };
    const { status, stdout, stderr } = spawnSync(program, [], { env, encoding: "utf8", timeout: 60_000 });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
  });

  it("brings no library of C++ into a program", async () => {
    const needed = readFileSync(largeBlocksLink(cache)).toString("latin1");
    expect(needed).not.toMatch(/libstdc\+\+|libc\+\+/);
  });
});
