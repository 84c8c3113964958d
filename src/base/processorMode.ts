/** Which of the processor's instructions programs and library calls use: all, or fewer where the environment holds them back. */
import { readFileSync } from "node:fs";

/** From the least; each has those before it. */
export const instructionSets = ["sse4.2", "avx", "avx2", "avx512", "avx512-bf16", "amx"] as const;
export type InstructionSet = (typeof instructionSets)[number];

export interface ProcessorMode {
  readonly processor: InstructionSet;
  /** What XLA generates loops for. */
  readonly xla: InstructionSet;
  /** What oneDNN's products use. */
  readonly oneDnn: InstructionSet;
}

const ofXla: Readonly<Record<string, InstructionSet>> = {
  SSE4_2: "sse4.2",
  AVX: "avx",
  AVX2: "avx2",
  AVX512: "avx512",
  AVX512_VNNI: "avx512",
  AVX512_BF16: "avx512-bf16",
};

const ofOneDnn: Readonly<Record<string, InstructionSet>> = {
  SSE41: "sse4.2",
  AVX: "avx",
  AVX2: "avx2",
  AVX2_VNNI: "avx2",
  AVX512_CORE: "avx512",
  AVX512_CORE_VNNI: "avx512",
  AVX512_CORE_BF16: "avx512-bf16",
  AVX512_CORE_FP16: "avx512-bf16",
};

/** The best of them in a processor's flags, as /proc/cpuinfo writes them; undefined for another kind of processor. */
export function instructionSetOf(flags: ReadonlySet<string>): InstructionSet | undefined {
  if (flags.has("amx_bf16") && flags.has("amx_tile")) return "amx";
  if (flags.has("avx512_bf16")) return "avx512-bf16";
  const names = { avx512f: "avx512", avx2: "avx2", avx: "avx", sse4_2: "sse4.2" } as const;
  for (const [flag, set] of Object.entries(names)) if (flags.has(flag)) return set;
  return undefined;
}

/** Flags of the first processor in the text of /proc/cpuinfo. */
export function processorFlags(cpuInfo: string): ReadonlySet<string> {
  return new Set(/^flags\s*: (.*)$/m.exec(cpuInfo)?.[1]?.split(" ") ?? []);
}

/** What XLA's `--xla_cpu_max_isa` in XLA_FLAGS and ONEDNN_MAX_CPU_ISA leave of a processor. */
export function modeOf(processor: InstructionSet, env: NodeJS.ProcessEnv): ProcessorMode {
  const [, xla = ""] = /--xla_cpu_max_isa=(\w+)/.exec(env.XLA_FLAGS ?? "") ?? [];
  const oneDnn = env.ONEDNN_MAX_CPU_ISA ?? env.DNNL_MAX_CPU_ISA ?? "";
  return {
    processor,
    xla: lesser(processor, ofXla[xla.toUpperCase()]),
    oneDnn: lesser(processor, ofOneDnn[oneDnn.toUpperCase()]),
  };
}

/** Of this process; undefined where the processor is unknown: not Linux, or not x86. */
export function processorMode(): ProcessorMode | undefined {
  let text = "";
  try {
    text = readFileSync("/proc/cpuinfo", "utf8");
  } catch {
    return undefined;
  }
  const processor = instructionSetOf(processorFlags(text));
  return processor && modeOf(processor, process.env);
}

/** Whether a set has all of another. */
export const includesSet = (set: InstructionSet, other: InstructionSet): boolean =>
  instructionSets.indexOf(set) >= instructionSets.indexOf(other);

function lesser(a: InstructionSet, b: InstructionSet | undefined): InstructionSet {
  return b !== undefined && includesSet(a, b) ? b : a;
}
