/**
 * Arrays in the files of several processes: each writes pieces that it holds, under "NAME@ROW,COLUMN" where a piece is not the
 * whole array, and whoever reads them puts them together. One process writes one file of whole arrays.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { invariant, UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { dtypeInfo } from "../core/dtype.ts";
import { type HostArray, hostArray, type Shape, type Spec, sameShape, showSpec, sizeOf } from "../core/index.ts";
import { offsets, stridesOf } from "../core/values.ts";
import { meshSize } from "../sharding/mesh.ts";
import { pieceIndex, pieceShape, type Sharding } from "../sharding/partition.ts";
import { openSafetensors, type SafetensorsFile } from "./safetensors.ts";

/** One of the processes that write a checkpoint together; equally many devices of a mesh are each one's, in their order. */
export interface Writer {
  readonly index: number;
  readonly count: number;
}

export const onlyWriter: Writer = { index: 0, count: 1 };

/** Whose parameters, or whose optimizer's. */
export type ShardStem = "params" | "optimizer";

/** "params.safetensors" of one process, "params-00002-of-00004.safetensors" of several. */
export function shardName(stem: ShardStem, { index, count }: Writer): string {
  const digits = (value: number) => String(value).padStart(5, "0");
  return `${stem}${count === 1 ? "" : `-${digits(index + 1)}-of-${digits(count)}`}.safetensors`;
}

/** A box of an array. */
export interface Piece {
  /** Where it begins, along each dim. */
  readonly at: readonly number[];
  readonly shape: Shape;
  /** A device that holds it; absent: it is the whole array. */
  readonly device?: number;
}

/**
 * The pieces of an array that a process writes; over all processes each element comes once. Of those that hold a piece one
 * writes it, another one for each `turn`, so that replicated arrays are shared out.
 */
export function piecesToWrite(spec: Spec, sharding: Sharding | undefined, writer: Writer, turn: number): Piece[] {
  const { index, count } = writer;
  const whole = { at: spec.shape.map(() => 0), shape: spec.shape };
  if (count === 1) return [whole];
  const shape = sharding === undefined ? spec.shape : pieceShape(spec, sharding);
  if (sharding === undefined || sameShape(shape, spec.shape)) return turn % count === index ? [whole] : [];
  const devices = meshSize(sharding.mesh);
  invariant(devices % count === 0, `${devices} devices of ${count} processes`);
  const holders = new Map<string, { at: number[]; devices: number[] }>();
  for (let device = 0; device < devices; device++) {
    const at = pieceIndex(sharding, shape.length, device).map((place, dim) => place * shape[dim]!);
    const holder = holders.get(at.join()) ?? { at, devices: [] };
    holders.set(at.join(), holder);
    holder.devices.push(device);
  }
  const processOf = (device: number) => Math.floor((device * count) / devices);
  return [...holders.values()].flatMap(({ at, devices: having }, i) => {
    const processes = [...new Set(having.map(processOf))];
    if (processes[(turn + i) % processes.length] !== index) return [];
    return [{ at, shape, device: having.find((device) => processOf(device) === index)! }];
  });
}

/** The name of a piece in its file. */
export const pieceName = (name: string, { at, device }: Piece): string =>
  device === undefined ? name : `${name}@${at.join(",")}`;

const pieceNamePattern = /^(.+)@(\d+(?:,\d+)*)$/;

interface StoredPiece extends Piece {
  readonly file: SafetensorsFile;
  /** Its name in the file. */
  readonly key: string;
}

interface StoredArray extends Spec {
  readonly pieces: readonly StoredPiece[];
}

/** Whether a folder has arrays of a stem, of one process or of several. */
export const hasShards = (folder: string, stem: ShardStem): boolean =>
  existsSync(folder) && statSync(folder).isDirectory() && shardFiles(folder, stem).length > 0;

/**
 * Opens what processes wrote, however many they were, as one file of whole arrays.
 * @throws UserError (E_CHECKPOINT) where a file or a piece is missing or comes twice
 */
export async function openShards(folder: string, stem: ShardStem): Promise<SafetensorsFile> {
  const names = shardFiles(folder, stem);
  if (names.length <= 1) return openSafetensors(join(folder, names[0] ?? shardName(stem, onlyWriter)));
  const files: SafetensorsFile[] = [];
  const close = async () => {
    await Promise.all(files.map((file) => file.close()));
  };
  try {
    for (const name of names) files.push(await openSafetensors(join(folder, name)));
    const arrays = arraysOf(files, folder);
    const arrayNamed = (name: string) => {
      const near = nearest(name, arrays.keys());
      const hint = near === undefined ? "" : `. Did you mean "${near}"?`;
      return arrays.get(name) ?? damaged(folder, `no "${name}" in its ${stem}${hint}`);
    };
    return {
      path: folder,
      metadata: files[0]!.metadata,
      tensors: arrays,
      async read(name) {
        const array = arrayNamed(name);
        const { dtype, data } = await readValues(array, 0, sizeOf(array.shape));
        return hostArray(array.shape, dtype, data);
      },
      readPart: async (name, begin, count) => readValues(arrayNamed(name), begin, count),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function damaged(folder: string, what: string): never {
  throw new UserError("E_CHECKPOINT", `${folder}: ${what}`);
}

/** Names of the files, in the order of their processes. @throws UserError where they are not those of one writing */
function shardFiles(folder: string, stem: ShardStem): string[] {
  const files = shardsAmong(readdirSync(folder), stem);
  return typeof files === "string" ? damaged(folder, files) : files;
}

/** Of all names those of a stem, in the order of their processes, or why they are not those of one writing. */
export function shardsAmong(all: readonly string[], stem: ShardStem): string[] | string {
  const names = all.filter((name) => new RegExp(`^${stem}(-\\d+-of-\\d+)?\\.safetensors$`).test(name));
  const count = Number(/-of-(\d+)\./.exec(names.toSorted().at(-1) ?? "")?.[1] ?? Math.min(1, names.length));
  // A name may tell of any number: of more files than there are, one of the first is missing.
  const wanted = Array.from({ length: Math.min(count, names.length + 1) }, (_, index) =>
    shardName(stem, { index, count }),
  );
  const missing = wanted.find((name) => !names.includes(name));
  if (missing !== undefined) return `${missing} is missing`;
  const other = names.find((name) => !wanted.includes(name));
  return other === undefined ? wanted : `${other} does not belong to ${wanted[0]}`;
}

function arraysOf(files: readonly SafetensorsFile[], folder: string): ReadonlyMap<string, StoredArray> {
  const pieces = new Map<string, (StoredPiece & Spec)[]>();
  for (const file of files) {
    for (const [key, { shape, dtype }] of file.tensors) {
      const [, name = key, at] = pieceNamePattern.exec(key) ?? [];
      const begin = at === undefined ? shape.map(() => 0) : at.split(",").map(Number);
      const piece = { file, key, shape, dtype, at: begin };
      pieces.set(name, [...(pieces.get(name) ?? []), piece]);
    }
  }
  return new Map([...pieces].map(([name, list]) => [name, arrayOf(name, list, folder)]));
}

/** @throws UserError where the pieces are not those of one array, each element once */
function arrayOf(name: string, pieces: readonly (StoredPiece & Spec)[], folder: string): StoredArray {
  const [{ dtype, shape: first }] = pieces as [StoredPiece & Spec];
  for (const piece of pieces) {
    if (piece.dtype !== dtype || piece.shape.length !== first.length || piece.at.length !== first.length) {
      damaged(folder, `"${piece.key}" is ${showSpec(piece)}, another piece ${showSpec(pieces[0]!)}`);
    }
  }
  const shape = first.map((_, dim) => Math.max(...pieces.map((piece) => piece.at[dim]! + piece.shape[dim]!)));
  for (const [i, one] of pieces.entries()) {
    const other = pieces.slice(0, i).find((before) => overlap(one, before));
    if (other !== undefined) damaged(folder, `"${one.key}" and "${other.key}" hold the same elements`);
  }
  // Without overlap, as many elements as the whole has are all of them.
  const elements = pieces.reduce((sum, piece) => sum + sizeOf(piece.shape), 0);
  if (elements !== sizeOf(shape)) {
    damaged(folder, `of "${name}", ${showSpec({ shape, dtype })}, ${sizeOf(shape) - elements} elements are missing`);
  }
  return { shape, dtype, pieces };
}

const overlap = (a: Piece, b: Piece): boolean =>
  a.at.every((begin, dim) => begin < b.at[dim]! + b.shape[dim]! && b.at[dim]! < begin + a.shape[dim]!);

/** Values `begin` … `begin + count` in row-major order. */
async function readValues({ shape, dtype, pieces }: StoredArray, begin: number, count: number): Promise<HostArray> {
  const values = new (dtypeInfo(dtype).array)(count);
  // Of an array without elements a dim may be of any size.
  if (count === 0) return hostArray([count], dtype, values);
  const [strides, end] = [stridesOf(shape), begin + count];
  for (const { file, key, at, shape: box } of pieces) {
    const last = Math.max(0, box.length - 1);
    const length = box[last] ?? 1;
    const base = at.reduce((sum, place, dim) => sum + place * strides[dim]!, 0);
    // Where the piece's rows begin in the whole array: a stretch of them is wanted.
    const starts = offsets(box.slice(0, last), strides.slice(0, last), base);
    const first = starts.findIndex((start) => start + length > begin);
    const rows = first < 0 ? 0 : starts.findLastIndex((start) => start < end) + 1 - first;
    if (rows <= 0) continue;
    const from = (await file.readPart(key, first * length, rows * length)).data as Uint8Array;
    for (let row = 0; row < rows; row++) {
      const start = starts[first + row]!;
      const [low, high] = [Math.max(begin, start), Math.min(end, start + length)];
      const offset = row * length - start;
      (values as Uint8Array).set(from.subarray(low + offset, high + offset), low - begin);
    }
  }
  return hostArray([count], dtype, values);
}
