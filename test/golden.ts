/** Loads the golden data of test/golden by name. What each set holds, and how to compare with it: test/golden/README.md. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openSafetensors } from "../src/checkpoint/safetensors.ts";
import { decodeArray } from "../src/core/codecs.ts";
import { isFloat } from "../src/core/dtype.ts";
import type { HostArray } from "../src/core/hostArray.ts";

/** The tensors of one golden file. */
export interface Golden {
  readonly names: readonly string[];
  has(name: string): boolean;
  /** The tensor as stored. @throws Error where the file has none of that name */
  get(name: string): HostArray;
  /** Its values as numbers: floats decoded, integers converted (float64, exact). */
  values(name: string): Float32Array | Float64Array;
  /** Its single value. */
  scalar(name: string): number;
  /** Names of tensors that no one has read from this object, for tests that are to read them all. */
  unread(): string[];
}

/** Where a golden file lies, for code that takes a path: `goldenPath("06_models/llama_b_tied_plainrope")`. */
export function goldenPath(name: string): string {
  return fileURLToPath(new URL(`./golden/${name}`, import.meta.url));
}

/** All tensors of a safetensors file: `golden("02_nvfp4/nvfp4_cases")`. */
export async function golden(name: string): Promise<Golden> {
  const file = await openSafetensors(goldenPath(`${name}.safetensors`));
  const arrays = new Map<string, HostArray>();
  for (const tensor of file.tensors.keys()) arrays.set(tensor, await file.read(tensor));
  await file.close();
  const read = new Set<string>();
  const get = (tensor: string) => {
    read.add(tensor);
    const array = arrays.get(tensor);
    if (array === undefined) throw new Error(`golden ${name} has no tensor "${tensor}"`);
    return array;
  };
  const values = (tensor: string) => {
    const { dtype, data } = get(tensor);
    return isFloat(dtype) ? decodeArray(dtype, data) : Float64Array.from(data as ArrayLike<number>, Number);
  };
  const scalar = (tensor: string) => {
    const [value, ...more] = values(tensor);
    if (value === undefined || more.length > 0) throw new Error(`golden ${name}: "${tensor}" is no single value`);
    return value;
  };
  const names = [...arrays.keys()];
  const unread = () => names.filter((tensor) => !read.has(tensor));
  return { names, has: (tensor) => arrays.has(tensor), get, values, scalar, unread };
}

/** A JSON file: `goldenJson<Schedule[]>("08_lr/schedules")`. The caller states its type. */
export function goldenJson<T>(name: string): T {
  return JSON.parse(readFileSync(goldenPath(`${name}.json`), "utf8")) as T;
}
