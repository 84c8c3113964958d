/** What a training step costs along batch, sequence length, depth, width, vocabulary and remat policy, in time and in memory. */
import { spawn } from "node:child_process";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { UserError } from "../src/base/errors.ts";
import { nearest } from "../src/base/nearest.ts";
import { parseArguments } from "../src/cli/arguments.ts";
import { recipeByName } from "../src/quant/index.ts";
import { countOf, keptMemory, prepareOutputFile, runBenchmark, writeOutputFile } from "./command.ts";
import { type Curve, type CurvePoint, curves, labelOf } from "./curveDefinitions.ts";
import type { PointCost, PointRequest } from "./curvePoint.ts";
import {
  type CurveSeries,
  cliffFactor,
  cliffsOf,
  curveSvg,
  curvesText,
  type MeasuredCurve,
  type MeasuredPoint,
} from "./curveReport.ts";

const names = curves.map(({ name }) => name);

const help = `What a training step costs, along one size at a time; each point in a process of its own.

    npm run bench:curves -- [curves=${names.join(",")}] [points=500,512] [steps=5]
                            [quantization=none] [scan=false,true] [packed=false] [svg=FOLDER] [--json]

${curves.map(({ name, title, points }) => `${name.padEnd(8)} ${title}: ${points.map(labelOf).join(", ")}\n`).join("")}
points=… measures these alone, without curves=… of every curve that has one. Time is the best of the steps. Memory is how far the process grows in a step, beside what XLA plans. A neighbour that costs more than
${cliffFactor} × as much for its work (model FLOPs; blocks compiled; tokens in memory) is flagged as a cliff.
svg=FOLDER also writes each curve as NAME.svg.

Example:
    npm run bench:curves -- curves=batch,seq svg=curves
`;

/** What the user chose beside the curves. */
interface Choice {
  readonly steps: number;
  readonly recipe: string;
  /** Where given, in place of the curve's own. */
  readonly scan?: readonly boolean[];
  readonly packed: readonly boolean[];
}

/** Freed memory goes back at once, so that a step's growth is all that it allocates. */
const returnedMemory = { GLIBC_TUNABLES: "glibc.malloc.mmap_threshold=65536:glibc.malloc.trim_threshold=65536" };

async function main(args: readonly string[]): Promise<void> {
  const keys = ["curves", "points", "steps", "quantization", "scan", "packed", "svg"];
  const { settings, flags } = parseArguments(args, { keys });
  if (flags.has("help")) {
    process.stdout.write(help);
    return;
  }
  const chosen = chosenCurves(settings.curves?.split(","), settings.points?.split(","));
  const { quantization = "none", svg } = settings;
  recipeByName(quantization);
  const choice: Choice = {
    steps: countOf("steps", settings.steps ?? "5"),
    recipe: quantization,
    ...(settings.scan !== undefined && { scan: switchesOf("scan", settings.scan) }),
    packed: switchesOf("packed", settings.packed ?? "false"),
  };
  const fileOf = ({ name }: Curve) => (svg === undefined ? undefined : join(svg, `${name}.svg`));
  for (const curve of chosen) prepareOutputFile("svg", fileOf(curve));
  const measured: MeasuredCurve[] = [];
  for (const curve of chosen) measured.push(await measureCurve(curve, choice));
  process.stdout.write(flags.has("json") ? `${JSON.stringify(record(measured, choice))}\n` : curvesText(measured));
  for (const each of measured) writeOutputFile(fileOf(each.curve), () => curveSvg(each));
}

/** @throws UserError for an unknown name */
function curveByName(name: string): Curve {
  const curve = curves.find((each) => each.name === name);
  if (curve) return curve;
  const near = nearest(name, names);
  throw new UserError(
    "E_BENCH",
    `unknown curve "${name}"; ${near ? `did you mean ${near}?` : `known: ${names.join(", ")}`}`,
  );
}

/**
 * The curves of these names, with these points alone; without names those that have a point.
 * @throws UserError where a named curve, or every one, has none of the points
 */
function chosenCurves(wanted: readonly string[] | undefined, points: readonly string[] | undefined): readonly Curve[] {
  const named = wanted?.map(curveByName) ?? curves;
  if (points === undefined) return named;
  const cut = named.map((curve) => ({
    ...curve,
    points: curve.points.filter((point) => points.includes(labelOf(point))),
  }));
  const having = cut.filter((curve) => curve.points.length > 0);
  if (having.length === named.length || (wanted === undefined && having.length > 0)) return having;
  const lacking = named.filter((_, i) => cut[i]!.points.length === 0);
  const known = lacking.map((curve) => `${curve.name} has ${curve.points.map(labelOf).join(", ")}`).join("; ");
  throw new UserError("E_BENCH", `points=${points.join(",")}: there is none of these: ${known}`);
}

/** @throws UserError unless it is true, false or both */
function switchesOf(key: string, text: string): boolean[] {
  return text.split(",").map((word) => {
    if (word === "true" || word === "false") return word === "true";
    throw new UserError("E_BENCH", `${key}=${text}: must be true, false or false,true`);
  });
}

async function measureCurve(curve: Curve, { scan, packed, ...choice }: Choice): Promise<MeasuredCurve> {
  const variants = (scan ?? curve.scan).flatMap((scanLayers) =>
    packed.map((packedResiduals) => ({ scanLayers, packedResiduals })),
  );
  const series: CurveSeries[] = [];
  for (const variant of variants) {
    const { scanLayers, packedResiduals } = variant;
    const parts = [scanLayers ? "scanned" : "unrolled", ...(packedResiduals ? ["packed"] : [])];
    const name = variants.length > 1 ? parts.join(", ") : "";
    const points: MeasuredPoint[] = [];
    for (const point of curve.points) {
      points.push({ ...point, cost: await measurePoint(curve, point, { ...choice, ...variant }) });
      process.stderr.write(`${progressLine(curve, points.at(-1)!, name)}\n`);
    }
    series.push({ name, points });
  }
  return { curve, series };
}

type Variant = Omit<Choice, "scan" | "packed"> & Pick<PointRequest, "scanLayers" | "packedResiduals">;

/** Time and memory in processes of their own: they want other settings of the allocator. */
async function measurePoint(curve: Curve, { sizes, name = "none" }: CurvePoint, variant: Variant): Promise<PointCost> {
  const request = { ...variant, sizes, rematPolicy: name };
  const steps = curve.time ? variant.steps : 0;
  const grown = curve.memory ? await runPoint({ ...request, steps: 0, memory: true }, returnedMemory) : undefined;
  if (grown && !curve.time) return grown;
  const { grownBytes } = grown ?? {};
  const cost = await runPoint({ ...request, steps, memory: false }, keptMemory);
  return { ...cost, ...(grownBytes !== undefined && { grownBytes }) };
}

/** @throws Error with what the process said, where it ends without an answer */
function runPoint(request: PointRequest, allocator: typeof keptMemory): Promise<PointCost> {
  const script = fileURLToPath(new URL("curvePoint.ts", import.meta.url));
  const environment = { ...allocator, TF_CPP_MIN_LOG_LEVEL: "3", HALFBYTE_COMPILE_CACHE: "off" };
  const child = spawn(process.execPath, ["--import", "tsx", script, JSON.stringify(request)], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...environment },
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0) resolve(JSON.parse(stdout) as PointCost);
      else reject(new Error(`${JSON.stringify(request)} ended with ${signal ?? code}:\n${stderr}`));
    });
  });
}

function progressLine({ name }: Curve, point: MeasuredPoint, series: string): string {
  const { seconds, grownBytes, compileSeconds } = point.cost;
  const parts = [
    ...(seconds === undefined ? [] : [`${seconds.toFixed(3)} s a step`]),
    ...(grownBytes === undefined ? [] : [`${(grownBytes / 2 ** 20).toFixed(0)} MB`]),
    `compiled in ${compileSeconds.toFixed(1)} s`,
  ];
  return `${name} ${labelOf(point)}${series && ` ${series}`}: ${parts.join(", ")}`;
}

function record(measured: readonly MeasuredCurve[], choice: Choice): object {
  return {
    machine: { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version },
    ...choice,
    curves: measured.map(({ curve: { name, title, xLabel, measure }, series }) => ({
      ...{ name, title, xLabel, unit: measure?.unit, series },
    })),
    cliffs: measured.flatMap(cliffsOf),
  };
}

runBenchmark(main);
