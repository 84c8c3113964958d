/**
 * Trees: any nesting of plain objects and arrays. A leaf is everything else (a Tensor, a host array, a Spec, …);
 * null and undefined are empty subtrees. Objects with a `dtype` and a `shape` are leaves, so Specs and HostArrays are.
 */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";

type Container = Readonly<Record<string, unknown>> | readonly unknown[];

function isContainer(node: unknown): node is Container {
  if (typeof node !== "object" || node === null || ("dtype" in node && "shape" in node)) return false;
  return (
    Array.isArray(node) || Object.getPrototypeOf(node) === Object.prototype || Object.getPrototypeOf(node) === null
  );
}

const isEmpty = (node: unknown): boolean => node === null || node === undefined;

/** The same tree with each leaf of type `From` replaced by `To`. */
export type MapTree<T, From, To> = T extends From
  ? To
  : T extends readonly unknown[] | Readonly<Record<string, unknown>> | object
    ? { [K in keyof T]: MapTree<T[K], From, To> }
    : T;

/** Leaves with the path of keys to each, in order; paths read "blocks.0.attn.q". */
export function treePaths(tree: unknown, path = ""): { path: string; leaf: unknown }[] {
  if (isEmpty(tree)) return [];
  if (!isContainer(tree)) return [{ path, leaf: tree }];
  return Object.entries(tree).flatMap(([key, child]) => treePaths(child, path === "" ? key : `${path}.${key}`));
}

/** The tree as text, `show` for each leaf: two trees have the same text where structure, keys and leaves agree. */
export function showTree(tree: unknown, show: (leaf: unknown) => string): string {
  if (isEmpty(tree)) return "null";
  if (!isContainer(tree)) return show(tree);
  if (Array.isArray(tree)) return `[${tree.map((child) => showTree(child, show)).join(",")}]`;
  const members = Object.entries(tree).map(([key, child]) => `${JSON.stringify(key)}:${showTree(child, show)}`);
  return `{${members.join(",")}}`;
}

/** Leaves of a nesting of plain objects and arrays, in the order of their keys. */
export function treeLeaves<L = unknown>(tree: unknown): L[] {
  if (isEmpty(tree)) return [];
  if (!isContainer(tree)) return [tree as L];
  return Object.values(tree).flatMap((child) => treeLeaves<L>(child));
}

/** The tree with its leaves replaced, in order, by `leaves`. */
export function treeUnflatten<T>(tree: unknown, leaves: readonly unknown[]): T {
  let next = 0;
  const rebuild = (node: unknown): unknown => {
    if (isEmpty(node)) return node;
    if (!isContainer(node)) return leaves[next++];
    if (Array.isArray(node)) return node.map(rebuild);
    return Object.fromEntries(Object.entries(node).map(([key, child]) => [key, rebuild(child)]));
  };
  const result = rebuild(tree) as T;
  if (next !== leaves.length)
    throw new UserError("E_TREE", `the tree has ${next} leaves, ${leaves.length} values were given`);
  return result;
}

/**
 * The leaves of `tree` in the order of `like`, whose keys may come in another order. @throws UserError where the trees
 * differ in structure; `what` names them in the message.
 */
export function treeLeavesLike<L = unknown>(like: unknown, tree: unknown, what = "trees"): L[] {
  const wanted = treePaths(like);
  const given = new Map(treePaths(tree).map(({ path, leaf }) => [path, leaf]));
  const leaves = wanted.map(({ path }) => {
    if (given.has(path)) return given.get(path) as L;
    const near = nearest(path, [...given.keys()]);
    throw new UserError(
      "E_TREE",
      `${what} differ: "${path}" has no counterpart${near ? `; the nearest is "${near}"` : ""}`,
    );
  });
  if (given.size !== wanted.length) {
    const extra = [...given.keys()].find((path) => !wanted.some((entry) => entry.path === path));
    throw new UserError(
      "E_TREE",
      `${what} differ: ${wanted.length} leaves against ${given.size}; "${extra}" is too many`,
    );
  }
  return leaves;
}

/**
 * A tree of f(leaf, …leaves of the others at the same place, path). @throws UserError where the trees differ in structure.
 */
export function treeMap<R>(f: (...leaves: never[]) => unknown, tree: unknown, ...rest: readonly unknown[]): R {
  const paths = treePaths(tree);
  const others = rest.map((other) => treeLeavesLike(tree, other));
  const call = f as (...leaves: unknown[]) => unknown;
  return treeUnflatten<R>(
    tree,
    paths.map(({ path, leaf }, i) => call(leaf, ...others.map((leaves) => leaves[i]), path)),
  );
}
