/** What `doctor` concludes from what it found: how each recipe runs here, and what to change. Pure. */
import type { Machine } from "./machine.ts";

export interface RecipeSupport {
  readonly recipe: string;
  readonly how: "native" | "emulated";
  /** One clause for a person. */
  readonly detail: string;
}

/** How the recipes run on a platform ("cpu", "cuda") with this processor. */
export function recipeSupport(platform: string, { processor }: Machine): RecipeSupport[] {
  if (platform !== "cpu") {
    const detail = `untested on "${platform}"`;
    return [
      { recipe: "bf16", how: "native", detail },
      { recipe: "nvfp4", how: "emulated", detail: `exact values in BF16; ${detail}` },
    ];
  }
  const unit = processor.amxBf16 ? "AMX tiles" : processor.avx512Bf16 ? "AVX-512 BF16" : undefined;
  return [
    unit === undefined
      ? {
          recipe: "bf16",
          how: "emulated",
          detail: "BF16 values, multiplied in F32: this processor has no BF16 dot product",
        }
      : { recipe: "bf16", how: "native", detail: `BF16 products summed in F32 by ${unit}` },
    {
      recipe: "nvfp4",
      how: "emulated",
      detail:
        "FP4 values and scales exact, multiplied as BF16, summed in F32 (FP4 hardware differs in the order of sums)",
    },
  ];
}

const GIB = 2 ** 30;

/** glibc before this ignores the setting for huge pages. */
const HUGE_PAGES_SINCE = [2, 35] as const;

function olderThan(version: string, [major, minor]: readonly [number, number]): boolean {
  const [a = 0, b = 0] = version.split(".").map(Number);
  return a < major || (a === major && b < minor);
}

/** What to change, most important first; empty where all is well. */
export function advice(platform: string, { processor, memory, allocator }: Machine): string[] {
  if (platform !== "cpu") return [];
  const { glibc, keepsMemory } = allocator;
  const found: (string | false)[] = [
    processor.load > processor.cores / 2 &&
      `Other work is running (load ${processor.load.toFixed(1)} on ${processor.cores} cores), so the measured speed is too low: look again when it is done.`,
    memory.available < 2 * GIB &&
      `Only ${(memory.available / GIB).toFixed(1)} GiB of memory are free; the demo needs about 2. Close something, or give the container more.`,
    glibc !== undefined &&
      !keepsMemory &&
      "glibc gives each step's memory back and faults it in again, about a third of the time. Start with bin/halfbyte and leave GLIBC_TUNABLES and HALFBYTE_NO_TUNABLES unset, or preload jemalloc.",
    glibc !== undefined &&
      olderThan(glibc, HUGE_PAGES_SINCE) &&
      `glibc ${glibc} can't use huge pages for what it allocates (2.35 can): steps are somewhat slower.`,
    memory.hugePages === "never" &&
      "Huge pages are switched off, so steps are somewhat slower: write madvise into /sys/kernel/mm/transparent_hugepage/enabled.",
    !processor.avx512Bf16 &&
      !processor.amxBf16 &&
      "This processor has no BF16 dot product (AVX512-BF16 or AMX): training works, several times slower than on one that has.",
  ];
  return found.filter((text) => text !== false);
}
