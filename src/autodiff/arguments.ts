/** What a user hands to the functions here, refused in their words where it is something else. */
import { ShapeError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { sameShape, showSpec, Tensor, treePaths } from "../core/index.ts";

/** "a Tensor float32[3]", "a list of 2", "an object with keys a, b", "number". */
export function describe(value: unknown): string {
  if (value instanceof Tensor) return `a Tensor ${showSpec(value)}`;
  if (value instanceof Promise) return "a Promise: it can't be async";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value ?? typeof value);
  return `an object with keys ${Object.keys(value).join(", ")}`;
}

/** The leaves of a tree of Tensors. @throws ShapeError where one is none; `what` begins the message: "scan: init" */
export function tensorsIn(tree: unknown, what: string): Tensor[] {
  return treePaths(tree).map(({ path, leaf }) => {
    if (leaf instanceof Tensor) return leaf;
    const at = path === "" ? "" : ` at "${path}"`;
    const fix = typeof leaf === "number" ? `; a number becomes one by full([], ${leaf}, "float32")` : "";
    throw new ShapeError(`${what} must be a Tensor or a tree of them; got ${describe(leaf)}${at}${fix}`);
  });
}

/** @throws ShapeError where `f` is no function; `what` begins the message: "cond: onFalse" */
export function checkFunction(f: unknown, what: string): void {
  if (typeof f !== "function") throw new ShapeError(`${what} must be a function; got ${describe(f)}`);
}

/** @throws ShapeError where `value` is no plain object or has other keys; `rule` is what it must be: "scan: the body must return { carry, y }" */
export function checkKeys(value: unknown, keys: readonly string[], rule: string): void {
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Tensor)
    throw new ShapeError(`${rule}; got ${describe(value)}`);
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  if (unknown === undefined) return;
  const near = nearest(unknown, keys);
  throw new ShapeError(`${rule}; got a key "${unknown}"${near === undefined ? "" : `; the nearest is "${near}"`}`);
}

/** @throws ShapeError where a cotangent differs from what it belongs to */
export function checkCotangents(cts: readonly Tensor[], like: readonly Tensor[], rule: string): void {
  cts.forEach((ct, i) => {
    const of = like[i]!;
    if (ct.dtype === of.dtype && sameShape(ct.shape, of.shape)) return;
    throw new ShapeError(`${rule} ${showSpec(of)}; got ${showSpec(ct)}`);
  });
}
