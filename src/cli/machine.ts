/** What this machine is, read from the system: processor, memory, allocator settings. Pure parsers, then one reader. */
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { type MachineMemory, machineMemory } from "../base/machineMemory.ts";
import { processorFlags } from "../base/processorMode.ts";

export interface Processor {
  readonly model: string;
  /** How many run at once: the cores this process may use, less where a container's quota is lower. */
  readonly cores: number;
  /** Threads that wanted to run in the last minute, on average, on the whole machine. */
  readonly load: number;
  readonly avx512: boolean;
  /** BF16 dot products in AVX-512 registers. */
  readonly avx512Bf16: boolean;
  /** BF16 tiles: the fast matrix unit of recent Intel server processors. */
  readonly amxBf16: boolean;
}

export interface Memory extends MachineMemory {
  /** Transparent huge pages. */
  readonly hugePages: "always" | "madvise" | "never" | "unknown";
}

export interface Allocator {
  /** Version of glibc; undefined with another C library. */
  readonly glibc: string | undefined;
  /** Whether freed memory is kept, in huge pages, between steps. */
  readonly keepsMemory: boolean;
  /** Whether large blocks are served by the allocator that the set-up builds (native/preload). */
  readonly largeBlocks: boolean;
}

export interface Machine {
  readonly processor: Processor;
  readonly memory: Memory;
  readonly allocator: Allocator;
}

/** Features and model of the first processor in the text of /proc/cpuinfo. */
export function parseCpuInfo(text: string): Omit<Processor, "cores" | "load"> {
  const field = (name: string) => text.match(new RegExp(`^${name}\\s*: (.*)$`, "m"))?.[1] ?? "";
  const flags = processorFlags(text);
  return {
    model: field("model name") || "unknown",
    avx512: flags.has("avx512f"),
    avx512Bf16: flags.has("avx512_bf16"),
    amxBf16: flags.has("amx_bf16") && flags.has("amx_tile"),
  };
}

/** Cores a cgroup may use, from "QUOTA PERIOD" or "max PERIOD" (microseconds). */
export function parseCpuQuota(text: string): number {
  const [quota, period] = text.trim().split(/\s+/).map(Number);
  return quota && period ? Math.max(1, Math.ceil(quota / period)) : Number.POSITIVE_INFINITY;
}

/** The chosen word of "always [madvise] never". */
export function parseHugePages(text: string): Memory["hugePages"] {
  const chosen = text.match(/\[(always|madvise|never)\]/)?.[1];
  return (chosen as Memory["hugePages"] | undefined) ?? "unknown";
}

/** Whether the allocator of large blocks is loaded, in the text of /proc/self/maps. */
export const servesLargeBlocks = (maps: string): boolean => /\/large-blocks\.so$/m.test(maps);

/** Whether a value of GLIBC_TUNABLES (or a preloaded jemalloc) stops each step from faulting its memory in again. */
export function keepsMemory(env: NodeJS.ProcessEnv): boolean {
  const tunables = env.GLIBC_TUNABLES ?? "";
  return (
    (/glibc\.malloc\.mmap_max=0/.test(tunables) && /glibc\.malloc\.trim_threshold=\d{9,}/.test(tunables)) ||
    /jemalloc|tcmalloc/.test(env.LD_PRELOAD ?? "")
  );
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

export function readMachine(): Machine {
  const cpuInfo = parseCpuInfo(read("/proc/cpuinfo"));
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return {
    processor: {
      ...cpuInfo,
      model: cpuInfo.model === "unknown" ? (cpus()[0]?.model ?? "unknown") : cpuInfo.model,
      load: loadavg()[0] ?? 0,
      cores: Math.min(availableParallelism(), parseCpuQuota(read("/sys/fs/cgroup/cpu.max"))),
    },
    memory: {
      ...machineMemory(),
      hugePages: parseHugePages(read("/sys/kernel/mm/transparent_hugepage/enabled")),
    },
    allocator: {
      glibc: report.header?.glibcVersionRuntime,
      keepsMemory: keepsMemory(process.env),
      largeBlocks: servesLargeBlocks(read("/proc/self/maps")),
    },
  };
}
