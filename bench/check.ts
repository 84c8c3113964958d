/** `npm run bench:check`: whether the training step or a part of it became slower than the committed ratios say. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { UserError } from "../src/base/errors.ts";
import { processorMode } from "../src/base/processorMode.ts";
import { parseArguments } from "../src/cli/arguments.ts";
import { type Client, defaultClient, locatePlugin, nativeKernels, probeOneDnn } from "../src/pjrt/index.ts";
import { countOf, ensureKeptMemory, prepareOutputFile, runBenchmark } from "./command.ts";
import { measureRatio, type PartRatio } from "./partRatio.ts";
import {
  compare,
  comparisonTable,
  findReference,
  isQuiet,
  loopAllowance,
  type ReferenceKey,
  readReferences,
  recordReference,
  slowerThan,
} from "./references.ts";
import { type PartName, stepParts } from "./stepParts.ts";
import { workloadByName } from "./workload.ts";

const partNames = Object.keys(stepParts) as PartName[];
const committed = fileURLToPath(new URL("./reference-ratios.json", import.meta.url));

const help = `Whether the training step or a part of it became slower, by ratios that don't depend on the machine's speed.

    npm run bench:check -- [record] [workload=L8] [parts=all] [rounds=8] [tolerance=15] [references=FILE] [--json]

Each part alternates with XLA matrix products in the same process; its ratio is its time over theirs for as many FLOPs (norm,
swiglu, rope and optimizer: over a plain loop's for as many bytes). Times are process CPU time over cores, and wall time where nothing
else runs. What is slower is measured once more before it counts.

record      write the ratios as the reference of this kind of machine
parts       names with commas between: ${partNames.join(", ")}
rounds      of each part; whole steps have half as many
tolerance   percent by which a ratio may be worse; beyond that the command ends with 1. Those to a loop may be ${loopAllowance} times as much worse:
            other work on the machine's memory moves them by 40 %
references  the file of references (default: bench/reference-ratios.json), one for each kind of processor, plugin, use of native
            kernels (HALFBYTE_NATIVE_KERNELS=0 does without them) and workload. Without one for this machine it prints the ratios

Example:
    npm run bench:check -- parts=attention,loss
`;

runBenchmark(async (args) => {
  const keys = ["workload", "parts", "rounds", "tolerance", "references"];
  const { settings, flags, words } = parseArguments(args, { keys, maxWords: 1 });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const [word] = words;
  if (word !== undefined && word !== "record")
    throw new UserError("E_ARGUMENT", `unknown word "${word}"; known: record`);
  ensureKeptMemory();
  const sizes = workloadByName(settings.workload ?? "L8");
  const parts = partsOf(settings.parts ?? "all");
  const rounds = countOf("rounds", settings.rounds ?? "8");
  const tolerance = countOf("tolerance", settings.tolerance ?? "15");
  const path = settings.references ?? committed;
  if (word === "record") prepareOutputFile("references", path);
  else if (!existsSync(path)) {
    throw new UserError("E_BENCH", `references=${path}: there is no such file; with \`record\` it is written`);
  }
  const references = readReferences(path);
  const client = defaultClient();
  const key = await keyOf(client, sizes.name);

  const measured: Record<string, PartRatio> = {};
  const measure = async (part: PartName): Promise<void> => {
    process.stderr.write(`${part} …\n`);
    const count = part.startsWith("step") ? Math.ceil(rounds / 2) : rounds;
    const again = await measureRatio(client, sizes, stepParts[part](sizes), count);
    const before = measured[part];
    measured[part] = before !== undefined && before.ratio.cpu < again.ratio.cpu ? before : again;
  };
  for (const part of parts) await measure(part);
  const reference = findReference(references, key);
  if (word !== "record") {
    for (const { part } of slowerThan(compare(measured, reference), tolerance)) await measure(part as PartName);
  }
  const comparisons = compare(measured, reference);
  const slower = word === "record" ? [] : slowerThan(comparisons, tolerance);
  if (flags.has("json")) {
    const result = { key, tolerance, parts: comparisons, seconds: measured, slower: slower.map(({ part }) => part) };
    process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
  } else {
    process.stdout.write(`${describeKey(key)}\n\n${comparisonTable(comparisons, tolerance)}`);
    process.stdout.write(`\n${conclusion()}\n`);
  }
  if (word === "record") recordReference(path, key, measured);
  await client.destroy();
  process.exit(slower.length > 0 ? 1 : 0);

  function conclusion(): string {
    const busy = Object.values(measured).every(isQuiet) ? "" : " Other work runs here: CPU time alone was compared.";
    if (word === "record") return `They are the reference now, in ${path}.${busy}`;
    if (reference === undefined)
      return `There is no reference for this kind of machine; write one: npm run bench:check -- record.${busy}`;
    if (slower.length === 0) return `Nothing is more than ${tolerance} % slower than its reference.${busy}`;
    return `More than ${tolerance} % slower than the reference: ${slower.map(({ part }) => part).join(", ")}.${busy}`;
  }
});

function partsOf(text: string): readonly PartName[] {
  if (text === "all") return partNames;
  return text.split(",").map((name) => {
    const part = partNames.find((known) => known === name);
    if (part === undefined) throw new UserError("E_BENCH", `unknown part "${name}"; known: ${partNames.join(", ")}`);
    return part;
  });
}

async function keyOf(client: Client, workload: string): Promise<ReferenceKey> {
  const mode = processorMode();
  const { record, path } = locatePlugin();
  const native = await nativeKernels(client);
  const limits = mode === undefined || mode.xla === mode.processor ? "" : `, XLA ${mode.xla}`;
  const products = (await probeOneDnn(client)).bfloat16 ? "" : ", without oneDNN's products";
  return {
    processor: `${mode?.processor ?? process.arch}${limits}${products}`,
    plugin: record === undefined ? path : `${record.package} ${record.version}`,
    nativeKernels: native.used ? native.instructionSet : "off",
    workload,
  };
}

const describeKey = ({ processor, plugin, nativeKernels, workload }: ReferenceKey): string =>
  `${workload} on ${processor}, ${plugin}, native kernels ${nativeKernels}`;
