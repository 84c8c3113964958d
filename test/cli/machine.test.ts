import { describe, expect, it } from "vitest";
import { advice, recipeSupport } from "../../src/cli/advice.ts";
import {
  keepsMemory,
  type Machine,
  parseCpuInfo,
  parseCpuQuota,
  parseHugePages,
  readMachine,
} from "../../src/cli/machine.ts";

const cpuInfo = (flags: string) =>
  `processor\t: 0\nvendor_id\t: X\nmodel name\t: A Processor @ 2.00GHz\nflags\t\t: fpu ${flags} sse\n\nprocessor\t: 1\n`;

describe("parsers", () => {
  it("read the processor's features", () => {
    expect(parseCpuInfo(cpuInfo("avx512f avx512_bf16 amx_bf16 amx_tile"))).toEqual({
      model: "A Processor @ 2.00GHz",
      avx512: true,
      avx512Bf16: true,
      amxBf16: true,
    });
    // Neither a prefix of a flag nor tiles without BF16 count.
    expect(parseCpuInfo(cpuInfo("avx512f_x avx512_bf16x amx_tile"))).toMatchObject({
      avx512: false,
      avx512Bf16: false,
      amxBf16: false,
    });
    expect(parseCpuInfo("")).toEqual({ model: "unknown", avx512: false, avx512Bf16: false, amxBf16: false });
  });

  it("read a container's quota", () => {
    expect(parseCpuQuota("150000 100000\n")).toBe(2);
    expect(parseCpuQuota("max 100000\n")).toBe(Number.POSITIVE_INFINITY);
    expect(parseCpuQuota("")).toBe(Number.POSITIVE_INFINITY);
  });

  it("read the huge pages' mode", () => {
    expect(parseHugePages("always [madvise] never\n")).toBe("madvise");
    expect(parseHugePages("")).toBe("unknown");
  });

  it("know when the allocator keeps memory", () => {
    const tunables = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=100000000000";
    expect(keepsMemory({ GLIBC_TUNABLES: tunables })).toBe(true);
    expect(keepsMemory({ GLIBC_TUNABLES: "glibc.malloc.hugetlb=1" })).toBe(false);
    expect(keepsMemory({ LD_PRELOAD: "/usr/lib/libjemalloc.so.2" })).toBe(true);
    expect(keepsMemory({})).toBe(false);
  });

  it("read this machine", () => {
    const { processor, memory } = readMachine();
    expect(processor.cores).toBeGreaterThanOrEqual(1);
    expect(memory.available).toBeGreaterThan(0);
    expect(memory.available).toBeLessThanOrEqual(memory.total);
  });
});

const good: Machine = {
  processor: { model: "A", cores: 8, load: 0.2, avx512: true, avx512Bf16: true, amxBf16: true },
  memory: { total: 32 * 2 ** 30, available: 16 * 2 ** 30, hugePages: "madvise" },
  allocator: { glibc: "2.36", keepsMemory: true, largeBlocks: true },
};

describe("advice", () => {
  it("is silent where all is well", () => {
    expect(advice("cpu", good)).toEqual([]);
  });

  it.each([
    [{ ...good, processor: { ...good.processor, load: 7 } }, "load 7.0 on 8 cores"],
    [{ ...good, memory: { ...good.memory, available: 2 ** 30 } }, "1.0 GiB of memory"],
    [{ ...good, allocator: { glibc: "2.36", keepsMemory: false, largeBlocks: false } }, "bin/halfbyte"],
    [{ ...good, allocator: { glibc: "2.31", keepsMemory: true, largeBlocks: true } }, "glibc 2.31"],
    [{ ...good, memory: { ...good.memory, hugePages: "never" as const } }, "madvise"],
    [{ ...good, processor: { ...good.processor, avx512Bf16: false, amxBf16: false } }, "no BF16 dot product"],
  ])("names each fault and its cure (%#)", (machine, text) => {
    const found = advice("cpu", machine);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(text);
  });

  it("says how each recipe runs", () => {
    const how = (machine: Machine) => recipeSupport("cpu", machine).map(({ recipe, how }) => `${recipe} ${how}`);
    expect(how(good)).toEqual(["bf16 native", "nvfp4 emulated"]);
    const plain = { ...good, processor: { ...good.processor, avx512Bf16: false, amxBf16: false } };
    expect(how(plain)).toEqual(["bf16 emulated", "nvfp4 emulated"]);
  });
});
