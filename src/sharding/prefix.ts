/** Partitions for the leaves of a tree, given as a tree of the same structure or as a prefix of it. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { treePaths } from "../core/index.ts";
import { type Partition, replicated } from "./partition.ts";

/**
 * A tree of Partitions. A Partition in place of a subtree holds for all of it; null and undefined there mean replicated.
 */
export type PartitionTree = object | null | undefined;

const isPartition = (node: unknown): node is Partition => typeof node === "object" && node !== null && "splits" in node;

/**
 * The partition of each leaf of `tree`, in order. @throws UserError where a key of `tree` is missing in the prefix or has
 * no counterpart; `what` names the trees.
 */
export function partitionsFor(prefix: PartitionTree, tree: unknown, what: string): Partition[] {
  const walk = (node: PartitionTree, subtree: unknown, path: string): Partition[] => {
    if (node === null || node === undefined) return treePaths(subtree).map(() => replicated);
    if (isPartition(node)) return treePaths(subtree).map(() => node);
    const leaves = treePaths(subtree);
    if (leaves.length === 0) return [];
    const at = path === "" ? "" : ` at "${path}"`;
    if (typeof node !== "object" || leaves[0]!.path === "")
      throw new UserError("E_SHARDING", `${what}${at}: expected a partition; got ${typeof node}`);
    const children = subtree as Readonly<Record<string, unknown>>;
    const given = node as Readonly<Record<string, PartitionTree>>;
    const keys = Object.keys(children);
    const unknown = Object.keys(given).find((key) => !keys.includes(key));
    if (unknown !== undefined) {
      const near = nearest(unknown, keys);
      throw new UserError(
        "E_SHARDING",
        `${what}${at}: there is nothing called "${unknown}"${near ? `; did you mean "${near}"?` : ""}`,
      );
    }
    return keys.flatMap((key) => {
      const child = path === "" ? key : `${path}.${key}`;
      if (treePaths(children[key]).length > 0 && !(key in given))
        throw new UserError("E_SHARDING", `${what}: no partition for "${child}"; null there means replicated`);
      return walk(given[key], children[key], child);
    });
  };
  return walk(prefix, tree, "");
}
