/** The matrix that `halfbyte inspect numerics` looks at: a weight of a file, a list of numbers, or a made-up one. */
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../base/errors.ts";
import { newestCheckpoint, openSafetensors } from "../checkpoint/index.ts";
import { decodeArray, encodeArray } from "../core/codecs.ts";
import { type HostArray, hostArray, isFloat } from "../core/index.ts";
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
  if (path !== undefined) return ofFile(path, tensor);
  if (tensor !== undefined)
    throw new UserError("E_NUMERICS", `tensor=${tensor} needs a file, a checkpoint or a run's folder before it`);
  return values !== undefined ? ofList(values, width) : ofNormal(settings);
}

async function ofFile(path: string, name: string | undefined): Promise<InspectedTensor> {
  const file = await openSafetensors(await fileOf(path));
  try {
    const matrices = [...file.tensors]
      .filter(([, { shape, dtype }]) => shape.length === 2 && isFloat(dtype))
      .map(([name]) => name);
    if (name === undefined) {
      const list = matrices.slice(0, 12).join(", ");
      throw new UserError(
        "E_NUMERICS",
        `tensor=… is missing; ${file.path} has ${list}${matrices.length > 12 ? `, … (${matrices.length} matrices)` : ""}`,
      );
    }
    const array = await file.read(name);
    if (!matrices.includes(name))
      throw new UserError(
        "E_NUMERICS",
        `tensor=${name} is ${array.dtype}[${array.shape}]; blocks are of a matrix of floats`,
      );
    return { matrix: asBfloat16(array.shape, decodeArray(array.dtype, array.data)), from: `${name} of ${file.path}` };
  } finally {
    await file.close();
  }
}

/** The safetensors file at a path: itself, a checkpoint's, that of a run's newest checkpoint, or a folder's one. */
async function fileOf(path: string): Promise<string> {
  if (statSync(path, { throwIfNoEntry: false })?.isFile()) return path;
  const checkpoints = join(path, "checkpoints");
  const newest = existsSync(checkpoints) ? await newestCheckpoint(checkpoints, () => {}) : undefined;
  const found = [newest?.path ?? path, path]
    .flatMap((folder) => ["params.safetensors", "model.safetensors"].map((file) => join(folder, file)))
    .find((file) => existsSync(file));
  if (found !== undefined) return found;
  throw new UserError(
    "E_NUMERICS",
    `${path} is no safetensors file, and no folder of a run, a checkpoint or a model with one`,
  );
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
