/** What a run writes beside its checkpoints: which is the best, its events, and programs that were compiled for it. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { bestCheckpoint, offerBestCheckpoint, runFolder } from "../../src/checkpoint/index.ts";
import { readProgress } from "../../src/checkpoint/progress.ts";
import { eventText } from "../../src/cli/runConsole.ts";
import { readEntry, writeEntry } from "../../src/jit/cacheEntries.ts";
import {
  allTensors,
  EventLog,
  evalLine,
  evaluations,
  eventLine,
  followEvents,
  latestByStep,
  numericsHeatMap,
  numericsOverTime,
  numericsTable,
  type RunEvent,
  readEvents,
  stepLine,
  stepRecord,
  svgChart,
  terminalChart,
  terminalHeatMap,
} from "../../src/metrics/index.ts";
import { lossChart } from "../../src/train/summary.ts";
import type { Files, FuzzFormat } from "./format.ts";
import { filesBelow } from "./mutant.ts";
import { mutateJson } from "./mutateJson.ts";

const json = (value: unknown) => Buffer.from(JSON.stringify(value));

/** A folder that looks whole. */
function emptyCheckpoint(step: number): Files {
  const files = { "params.safetensors": "", "optimizer.safetensors": "", "state.json": JSON.stringify({ step }) };
  const records = Object.entries(files).map(([name, text]) => [name, { bytes: text.length, sha256: "" }]);
  const all = { ...files, "manifest.json": JSON.stringify({ format: 1, files: Object.fromEntries(records) }) };
  const folder = `run/checkpoints/step-${String(step).padStart(8, "0")}`;
  return Object.fromEntries(Object.entries(all).map(([name, text]) => [`${folder}/${name}`, Buffer.from(text)]));
}

const bestRecord: FuzzFormat = {
  name: "best.json",
  mutated: /best\.json$/,
  seeds: async () => [
    {
      "run/best.json": json({ step: 10, loss: 2.5, validTokens: 100 }),
      ...emptyCheckpoint(10),
      ...emptyCheckpoint(20),
    },
  ],
  async read(folder) {
    const run = runFolder(folder, "run");
    const best = bestCheckpoint(run);
    const before = best === undefined ? Number.POSITIVE_INFINITY : best.loss;
    if (best !== undefined && best.step !== 10 && best.step !== 20) throw new Error(`the best is of step ${best.step}`);
    await offerBestCheckpoint(run, { step: 20, loss: 2, validTokens: 100 });
    const after = bestCheckpoint(run);
    const isOther = best?.validTokens !== 100 || before > 2;
    if (isOther ? after?.step !== 20 : after?.loss !== before) throw new Error(`${best?.loss} became ${after?.loss}`);
  },
};

const state: FuzzFormat = {
  name: "state.json",
  mutated: /state\.json$/,
  seeds: async () => [
    {
      "state.json": json({
        ...{ format: 1, step: 10, skippedInARow: 1, skippedSteps: 2, overflowSteps: 0, stepsByPrecision: { bf16: 10 } },
        data: { tokens: "abc", sequences: 4 },
        provenance: { recipe: "bf16", overrides: ["a=b"], phases: [{ firstStep: 1, precision: "bf16" }], seeds: {} },
      }),
    },
  ],
  async read(folder) {
    const { step, skippedInARow, skippedSteps, overflowSteps } = readProgress(join(folder, "state.json"));
    for (const count of [step, skippedInARow, skippedSteps, overflowSteps])
      if (!Number.isSafeInteger(count) || count < 0) throw new Error(`a count of ${count}`);
  },
};

const measured = { step: 1, seconds: 0.5, validTokens: 100, loss: 3, gradNorm: 1, learningRate: 0.1 };
const line = { blocks: "0-1", modules: "all", fprop: "bf16", dgrad: "bf16", wgrad: "bf16", runs: "emulated" };
const site = {
  layer: 0,
  module: "mlp.down",
  tensor: "x",
  format: "nvfp4",
  amax: 3,
  snrDb: 20,
  underflowPercent: 1,
} as const;
const events: readonly RunEvent[] = [
  {
    type: "start",
    step: 0,
    config: { steps: 3, log_period: 1 },
    parameters: 1e6,
    flopsPerToken: 6e6,
    precision: [line],
  },
  {
    type: "compile",
    program: "train_step",
    seconds: 2,
    cached: false,
    memory: { argumentBytes: 1e6, temporaryBytes: 2e6 },
  },
  {
    type: "numerics",
    step: 1,
    seconds: 1,
    sites: [site, { ...site, layer: 1, tensor: "dy" }],
    gradients: [{ tensor: "layers.0.down", cosine: 0.9, normRatio: 1 }],
  },
  { type: "step", ...stepRecord(measured, 6e6) },
  { type: "skip", step: 2, reason: "not finite", skippedInARow: 1, tensors: ["embed"], message: "step 2 is skipped" },
  { type: "step", ...stepRecord({ ...measured, step: 2, loss: Number.NaN }, 6e6) },
  { type: "checkpoint", step: 2, path: "checkpoints/step-00000002", seconds: 0.1, blockedSeconds: 0.01 },
  {
    type: "eval",
    step: 2,
    loss: 2.9,
    bitsPerByte: 1.2,
    validTokens: 500,
    seconds: 1,
    precision: "bf16",
    others: [{ precision: "nvfp4", loss: 3, bitsPerByte: 1.3 }],
    epochs: [{ source: "a", epochs: 0.5 }],
  },
  { type: "start", step: 2, resumed: true, config: { steps: 3 }, parameters: 1e6, flopsPerToken: 6e6 },
  { type: "step", ...stepRecord({ ...measured, step: 3, sources: [{ source: "a", loss: 3, validTokens: 9 }] }, 6e6) },
  { type: "sample", step: 3, prompt: "a", text: "b" },
  { type: "summary", step: 3, peakRssBytes: 1e9, name: "bf16", validationLoss: 2.9 },
  { type: "end", step: 3, reason: "done", seconds: 9 },
];

/** All that reads a run's events. */
const eventFile: FuzzFormat = {
  name: "events.jsonl",
  mutated: /jsonl$/,
  async seeds() {
    return [{ "events.jsonl": Buffer.from(events.map((event) => eventLine(event)).join("")) }];
  },
  mutate(_, bytes, draws) {
    const lines = Buffer.from(bytes).toString().trimEnd().split("\n");
    const at = draws.int(lines.length);
    const one = lines[at]!;
    switch (draws.int(5)) {
      case 0: // torn
        return Buffer.from([...lines.slice(0, at), one.slice(0, draws.int(one.length))].join("\n"));
      case 1: // garbage between, as where a disk gave pages that were never written
        return Buffer.from(lines.toSpliced(at, draws.int(2), "\0".repeat(draws.pick([1, 512, 70_000]))).join("\n"));
      case 2:
      case 3:
        return Buffer.from(`${lines.with(at, mutateJson(one, draws)).join("\n")}\n`);
      default:
        return undefined;
    }
  },
  async read(folder) {
    const path = join(folder, "events.jsonl");
    const before = readEvents(path).events;
    lookAt(before);
    evaluations(path);
    const log = new EventLog(path);
    log.write({ type: "note", message: "goes on" });
    log.close();
    const after = readEvents(path).events;
    const last = after.at(-1);
    if (last?.type !== "note" || after.length < before.length)
      throw new Error(`${before.length} events became ${after.length}`);
    let followed = 0;
    for await (const _ of followEvents(path, { isOver: () => true })) followed++;
    if (followed !== after.length) throw new Error(`${followed} events followed of ${after.length}`);
  },
};

function lookAt(list: readonly RunEvent[]): void {
  const timed = list as Parameters<typeof latestByStep>[0];
  for (const event of list) {
    if (event.type === "step") stepLine(event);
    else if (event.type === "eval") evalLine(event);
    else eventText(event);
  }
  const chart = lossChart([{ name: "a", events: timed }], "loss");
  svgChart(chart);
  terminalChart(chart);
  const records = latestByStep(timed, "numerics");
  const view = { statistic: "snrDb", tensors: allTensors } as const;
  for (const record of records) {
    numericsTable(record, view);
    terminalHeatMap(numericsHeatMap(record, view), { width: 80, ascii: false, colour: false });
  }
  if (records.length > 0) terminalChart(numericsOverTime(records, view));
}

const cacheKey = "0123456789abcdef".repeat(4);
const program = Buffer.from("a program ".repeat(50));

const cacheEntry: FuzzFormat = {
  name: "compile-cache-entry",
  mutated: /bin$/,
  async seeds(folder): Promise<Files[]> {
    mkdirSync(folder, { recursive: true });
    writeEntry(folder, cacheKey, program, 1e9);
    return [filesBelow(folder)];
  },
  async read(folder) {
    const path = join(folder, `${cacheKey}.bin`);
    const before = readFileSync(path);
    const content = readEntry(folder, cacheKey);
    if (content !== undefined && !program.equals(content)) throw new Error("a damaged program is used");
    writeEntry(folder, cacheKey, program, 1e9);
    const again = readEntry(folder, cacheKey);
    if (again === undefined || !program.equals(again))
      throw new Error(`${before.length} bytes keep a program from being kept`);
  },
};

export const runFormats: readonly FuzzFormat[] = [bestRecord, state, eventFile, cacheEntry];
