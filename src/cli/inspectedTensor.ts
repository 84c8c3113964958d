/** The matrix that `halfbyte inspect numerics` looks at: a weight of a file, a list of numbers, or a made-up one. */
import { statSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { chooseCheckpoint, hasModelFiles, type ModelFiles, openModelFiles, openShards } from "../checkpoint/index.ts";
import { decodeArray, encodeArray } from "../core/codecs.ts";
import { type HostArray, hostArray, isFloat, showSpec, sizeOf } from "../core/index.ts";
import { fillNormal } from "../train/state.ts";

/** Keys that say where the matrix comes from. */
export const sourceKeys = ["tensor", "values", "synthetic", "rows", "columns", "seed"] as const;

export interface InspectedTensor {
  /** bfloat16 [M, N]: what the quantizer of a model that computes in BF16 is given. */
  readonly matrix: HostArray;
  /** In words. */
  readonly from: string;
}

/** @param width columns that a list of numbers is laid out in @throws UserError */
export async function inspectedTensor(
  path: string | undefined,
  settings: Readonly<Record<string, string>>,
  width: number,
): Promise<InspectedTensor> {
  const { values, synthetic, tensor } = settings;
  const given = Object.entries({ "a file": path, "values=": values, "synthetic=": synthetic }).filter(
    ([, value]) => value !== undefined,
  );
  if (given.length > 1) {
    throw new UserError("E_NUMERICS", `${given.map(([name]) => name).join(" and ")} are two sources: keep one`);
  }
  const idle = (["rows", "columns", "seed"] as const).find((key) => settings[key] !== undefined);
  if (idle !== undefined && (path !== undefined || values !== undefined))
    throw noEffect(
      idle,
      `it is of synthetic=, and the matrix is ${values === undefined ? "a file's" : "that of values="}`,
    );
  if (path !== undefined) return ofFile(path, tensor);
  if (tensor !== undefined)
    throw new UserError("E_NUMERICS", `tensor=${tensor} needs a file, a checkpoint or a run's folder before it`);
  return values !== undefined ? ofList(values, width) : ofNormal(settings);
}

export const noEffect = (key: string, why: string): UserError =>
  new UserError("E_NO_EFFECT", `${key} has no effect: ${why}; leave it out`);

async function ofFile(given: string, name: string | undefined): Promise<InspectedTensor> {
  const model = await openWeights(given);
  const { path, specs } = model;
  try {
    const matrices = [...specs].filter(([, { shape, dtype }]) => shape.length === 2 && isFloat(dtype)).map(([n]) => n);
    if (name === undefined) {
      const list = matrices.slice(0, 12).join(", ");
      throw new UserError(
        "E_NUMERICS",
        `tensor=… is missing; ${path} has ${list}${matrices.length > 12 ? `, … (${matrices.length} matrices)` : ""}`,
      );
    }
    const spec = specs.get(name);
    if (spec === undefined) {
      const near = nearest(name, specs.keys());
      const fix = near === undefined ? "" : `. Did you mean "${near}"?`;
      throw new UserError("E_NUMERICS", `${path} has no tensor "${name}" among ${specs.size}${fix}`);
    }
    if (!matrices.includes(name) || sizeOf(spec.shape) === 0)
      throw new UserError(
        "E_NUMERICS",
        `tensor=${name} is ${showSpec(spec)}; blocks are of a matrix of floats with values`,
      );
    const { shape, dtype, data } = await model.read(name);
    return { matrix: asBfloat16(shape, decodeArray(dtype, data)), from: `${name} of ${path}` };
  } finally {
    await model.close();
  }
}

/** Opens what is at a path: a file, a checkpoint's arrays, those of a run's newest checkpoint, or a model's folder. */
async function openWeights(given: string): Promise<Pick<ModelFiles, "path" | "specs" | "read" | "close">> {
  const refuse = (what: string): never => {
    throw new UserError("E_NUMERICS", `${given}: ${what}`);
  };
  if (statSync(given, { throwIfNoEntry: false })?.isFile()) return openModelFiles(given);
  const chosen = await chooseCheckpoint(given, refuse);
  if (chosen !== undefined) {
    for (const sentence of chosen.passedOver) process.stderr.write(`${sentence}\n`);
    const { path, tensors: specs, read, close } = await openShards(chosen.path, "params");
    return { path, specs, read, close };
  }
  if (hasModelFiles(given)) return openModelFiles(given);
  return refuse("it is no safetensors file, and no folder of a run, a checkpoint or a model with one");
}

function ofList(text: string, width: number): InspectedTensor {
  const list = text.split(",").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  const bad = list.findIndex((value) => Number.isNaN(value));
  if (bad >= 0)
    throw new UserError(
      "E_NUMERICS",
      `values=…: number ${bad + 1}, "${text.split(",")[bad]}", is none; write values=0.1,2,-3`,
    );
  const rows = Math.ceil(list.length / Math.min(width, list.length));
  const columns = Math.min(width, list.length);
  return {
    matrix: asBfloat16(
      [rows, columns],
      Float32Array.from({ length: rows * columns }, (_, i) => list[i] ?? 0),
    ),
    from: `values=${text}`,
  };
}

function ofNormal({
  synthetic = "outlier",
  rows = "64",
  columns = "64",
  seed = "0",
}: Readonly<Record<string, string>>): InspectedTensor {
  if (synthetic !== "normal" && synthetic !== "outlier") {
    throw new UserError(
      "E_NUMERICS",
      `synthetic=${synthetic}: must be normal, or outlier (one value of 50 among normal ones)`,
    );
  }
  const [M, N, key] = Object.entries({ rows, columns, seed }).map(([name, text]) => {
    const isNumber = /^\d{1,9}$/.test(text) && (name === "seed" || (Number(text) >= 1 && Number(text) <= 8192));
    if (!isNumber)
      throw new UserError(
        "E_NUMERICS",
        `${name}=${text}: must be a whole number${name === "seed" ? "" : " from 1 to 8192"}`,
      );
    return Number(text);
  }) as [number, number, number];
  const values = new Float32Array(M * N);
  fillNormal(values, 1, key);
  if (synthetic === "outlier") values[Math.min(5, values.length - 1)] = 50;
  return { matrix: asBfloat16([M, N], values), from: `synthetic=${synthetic} rows=${M} columns=${N} seed=${key}` };
}

const asBfloat16 = (shape: readonly number[], values: ArrayLike<number>): HostArray =>
  hostArray(shape, "bfloat16", encodeArray("bfloat16", values));
