import { describe, expect, it } from "vitest";
import { includesSet, instructionSetOf, modeOf, processorFlags } from "../../src/base/processorMode.ts";

describe("what a processor offers", () => {
  it.each([
    ["fpu sse4_2 avx avx2 avx512f avx512_bf16 amx_bf16 amx_tile", "amx"],
    ["fpu sse4_2 avx avx2 avx512f avx512_bf16 amx_tile", "avx512-bf16"],
    ["fpu sse4_2 avx avx2 avx512f", "avx512"],
    ["fpu sse4_2 avx avx2", "avx2"],
    ["fpu sse4_2", "sse4.2"],
    ["fp asimd", undefined],
  ])("is the best set in its flags: %s", (flags, set) => {
    expect(instructionSetOf(processorFlags(`processor\t: 0\nflags\t\t: ${flags}\n`))).toBe(set);
  });

  it("is no set where the text has no flags", () => {
    expect(instructionSetOf(processorFlags("Features\t: fp asimd\n"))).toBeUndefined();
  });
});

describe("what the environment leaves of it", () => {
  it("is all of it, or less for XLA and for oneDNN", () => {
    expect(modeOf("amx", {})).toEqual({ processor: "amx", xla: "amx", oneDnn: "amx" });
    const held = { XLA_FLAGS: "--xla_dump_to=/x --xla_cpu_max_isa=AVX2", ONEDNN_MAX_CPU_ISA: "avx512_core" };
    expect(modeOf("amx", held)).toEqual({ processor: "amx", xla: "avx2", oneDnn: "avx512" });
  });

  it("is never more", () => {
    expect(modeOf("avx2", { ONEDNN_MAX_CPU_ISA: "AVX512_CORE_BF16" }).oneDnn).toBe("avx2");
    expect(includesSet("avx512", "avx512-bf16")).toBe(false);
    expect(includesSet("amx", "avx512-bf16")).toBe(true);
  });
});
