/** `halfbyte doctor`: what this machine offers, how fast it is, what runs natively and what emulated, and what to fix. */
import { includesSet, type ProcessorMode, processorMode } from "../base/processorMode.ts";
import { compiledCache } from "../jit/index.ts";
import {
  Client,
  locatePlugin,
  type MatrixPeak,
  measureMatrixPeak,
  type NativeKernels,
  nativeKernels,
  probeOneDnn,
} from "../pjrt/index.ts";
import { advice, type RecipeSupport, recipeSupport } from "./advice.ts";
import { parseArguments } from "./arguments.ts";
import { cacheText } from "./cache.ts";
import type { Command } from "./command.ts";
import { version } from "./help.ts";
import { type Machine, readMachine } from "./machine.ts";

interface Report {
  readonly halfbyte: string;
  readonly node: string;
  readonly system: string;
  readonly machine: Machine;
  readonly plugin: {
    readonly path: string;
    /** Package and version, where the set-up installed it. */
    readonly package: string | undefined;
    readonly pjrt: string;
    readonly stablehlo: string | undefined;
    readonly platform: string;
    readonly platformVersion: string;
    readonly devices: readonly { readonly id: number; readonly kind: string }[];
  };
  /** The measured rate of BF16 products on one device, and whether oneDNN's product is there and right. */
  readonly peak: MatrixPeak & { readonly oneDnn: boolean };
  /** Instructions that are in use; absent where the processor is none that is known. */
  readonly mode?: ProcessorMode;
  /** Whether programs call the kernels that the set-up builds. */
  readonly nativeKernels: NativeKernels;
  /** Compiled programs on disk. */
  readonly compiled: ReturnType<typeof compiledCache>;
  readonly recipes: readonly RecipeSupport[];
  readonly advice: readonly string[];
}

async function examine(): Promise<Report> {
  const location = locatePlugin();
  const client = new Client();
  const { api, attributes } = client.plugin;
  const stablehlo = attributes.stablehlo_current_version;
  const machine = readMachine();
  const mode = processorMode();
  const peak = { ...(await measureMatrixPeak(client)), oneDnn: (await probeOneDnn(client)).bfloat16 };
  return {
    halfbyte: version(),
    node: process.versions.node,
    system: `${process.platform} ${process.arch}`,
    machine,
    plugin: {
      path: location.path,
      package: location.record && `${location.record.package} ${location.record.version}`,
      pjrt: `${api.version.major}.${api.version.minor}`,
      stablehlo: Array.isArray(stablehlo) ? stablehlo.join(".") : undefined,
      platform: client.platformName,
      platformVersion: client.platformVersion,
      devices: client.devices.map(({ id, kind }) => ({ id, kind })),
    },
    peak,
    ...(mode && { mode }),
    nativeKernels: await nativeKernels(client),
    compiled: compiledCache(),
    recipes: recipeSupport(client.platformName, machine),
    advice: advice(client.platformName, machine),
  };
}

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
const yes = (value: boolean) => (value ? "yes" : "no");

const kernelsText = (kernels: NativeKernels): string =>
  kernels.used
    ? `native ones in use: ${kernels.instructionSet}, built by ${kernels.compiler}`
    : `native ones not in use: ${kernels.reason}`;

/** How products run with these instructions and settings, and what that costs. */
function productsText({ mode, peak }: Pick<Report, "mode" | "peak">): string {
  const held = mode && (mode.xla !== mode.processor || mode.oneDnn !== mode.processor);
  const limits = held ? `; held back: XLA uses ${mode.xla}, oneDNN ${mode.oneDnn}` : "";
  const name = mode === undefined ? "an unknown processor" : mode.processor;
  if (peak.oneDnn) return `${name}${limits}; BF16 products by oneDNN, the fastest form`;
  const fast = mode !== undefined && includesSet(mode.processor, "avx512-bf16");
  const cost = fast
    ? "weight gradients move an operand first and take about 1.15 × as long, those of attention 1.6 ×"
    : "without BF16 dot products they run at float32's rate at best";
  return `${name}${limits}; BF16 products by XLA's own dots: ${cost}`;
}

/** The report for a person; also used by its test. */
export function showReport(report: Report): string {
  const { machine, plugin, peak } = report;
  const { processor, memory, allocator } = machine;
  const { avx512, avx512Bf16, amxBf16 } = processor;
  const platform = [...new Set([plugin.platform, plugin.platformVersion])].join(" ");
  const kinds = [...new Set(plugin.devices.map(({ kind }) => kind))].join(", ");
  const rows: [string, string][] = [
    ["Halfbyte", `${report.halfbyte}, Node.js ${report.node}, ${report.system}`],
    ["Processor", `${processor.model}, ${processor.cores} cores`],
    ["", `AVX-512 ${yes(avx512)}, AVX512-BF16 ${yes(avx512Bf16)}, AMX-BF16 ${yes(amxBf16)}`],
    ["Memory", `${gib(memory.total)}, ${gib(memory.available)} free; huge pages: ${memory.hugePages}`],
    [
      "Allocator",
      `${allocator.glibc === undefined ? "not glibc" : `glibc ${allocator.glibc}`}, keeps memory between steps: ${yes(allocator.keepsMemory)}, large blocks by Halfbyte's own: ${yes(allocator.largeBlocks)}`,
    ],
    ["Plugin", `${plugin.package ?? "HALFBYTE_PJRT_PLUGIN"} (${plugin.path})`],
    ["PJRT", `${plugin.pjrt}${plugin.stablehlo === undefined ? "" : `, StableHLO ${plugin.stablehlo}`}`],
    ["Devices", `${plugin.devices.length} × ${kinds}, platform ${platform}`],
    [
      "Matrices",
      `${(peak.flopsPerSecond / 1e12).toFixed(2)} TFLOP/s in BF16, measured; oneDNN's products usable: ${yes(peak.oneDnn)}`,
    ],
    ["", productsText(report)],
    ["Kernels", kernelsText(report.nativeKernels)],
    ["Cache", `${cacheText(report.compiled)} (${report.compiled.folder})`],
    ...report.recipes.map(({ recipe, how, detail }, i): [string, string] => [
      i === 0 ? "Precision" : "",
      `${recipe} ${how}: ${detail}`,
    ]),
  ];
  const table = rows.map(([name, text]) => `${name.padEnd(10)} ${text}`).join("\n");
  if (report.advice.length === 0) return `${table}\n\nNothing to fix.\n`;
  return `${table}\n\nTo fix:\n${report.advice.map((text) => `- ${text}`).join("\n")}\n`;
}

export const command: Command = {
  help: `Usage: halfbyte doctor [--json]

Shows Node.js, the PJRT plugin and its devices, the processor's matrix features, memory and allocator, the matrix speed it
measures (a few seconds), how each precision recipe runs here, and what to fix.

  --json   the same as one JSON object on standard output

Example: halfbyte doctor
         HALFBYTE_PJRT_PLUGIN=/opt/pjrt/plugin.so halfbyte doctor --json
`,
  async run(args) {
    const { flags } = parseArguments(args, { keys: [] });
    const report = await examine();
    process.stdout.write(flags.has("json") ? `${JSON.stringify(report, null, 2)}\n` : showReport(report));
    return 0;
  },
};
