/** Einstein's summation: products of tensors by the names of their dims, made of dot, sum and transpose. */
import { ShapeError } from "../../base/errors.ts";
import type { DType } from "../dtype.ts";
import { showSpec } from "../hostArray.ts";
import type { Tensor } from "../tensor.ts";
import { dot } from "./dot.ts";

/** A tensor whose dims have one-letter names. */
interface Named {
  readonly x: Tensor;
  readonly names: readonly string[];
}

/** The result's dtype. */
export interface EinsumOptions {
  /** The result's dtype; sums are float32 whatever it is. Default as in `dot`. */
  readonly out?: DType;
}

/**
 * The sum of products that `equation` says: "bthd,bshd->bhts" multiplies where names are equal and sums over the names that the
 * result has not. Each operand's names differ from each other. Several operands are multiplied from left to right.
 * @throws ShapeError
 */
export function einsum(equation: string, operands: readonly Tensor[], { out }: EinsumOptions = {}): Tensor {
  const parts = equation.replaceAll(" ", "").match(/^([a-zA-Z]*(?:,[a-zA-Z]*)*)->([a-zA-Z]*)$/);
  const bad = (rule: string) => new ShapeError(`einsum "${equation}": ${rule}`);
  if (!Array.isArray(operands)) throw bad("takes its operands in a list, einsum(equation, [a, b])");
  if (parts === null) throw bad('write letters as in "ij,jk->ik"');
  const named = parts[1]!.split(",").map((letters, i): Named | undefined => {
    const x = operands[i];
    return x && { x, names: [...letters] };
  });
  if (named.length !== operands.length || named.includes(undefined))
    throw bad(`names ${named.length} operands; got ${operands.length}`);
  const result = [...parts[2]!];
  const list = named as Named[];
  checkSizes(list, result, bad);
  const [first, ...rest] = list as [Named, ...Named[]];
  const total = rest.reduce((product, next, i) => {
    const later = new Set([...result, ...rest.slice(i + 1).flatMap(({ names }) => names)]);
    return multiply(product, next, later, out);
  }, first);
  const { x, names } = sumOver(total, new Set(result));
  const ordered = x.transpose(result.map((name) => names.indexOf(name)));
  return out === undefined ? ordered : ordered.astype(out);
}

function checkSizes(list: readonly Named[], result: readonly string[], bad: (rule: string) => ShapeError): void {
  const sizes = new Map<string, number>();
  for (const { x, names } of list) {
    if (names.length !== x.rank) throw bad(`"${names.join("")}" names ${names.length} dims of ${showSpec(x)}`);
    if (new Set(names).size !== names.length) throw bad(`"${names.join("")}" has a name twice`);
    names.forEach((name, dim) => {
      const [size, known] = [x.shape[dim]!, sizes.get(name) ?? x.shape[dim]!];
      if (size !== known) throw bad(`${name} has sizes ${known} and ${size}; they must be equal`);
      sizes.set(name, size);
    });
  }
  const unknown = result.find((name) => !sizes.has(name));
  if (unknown !== undefined) throw bad(`${unknown} of the result is in no operand`);
  if (new Set(result).size !== result.length) throw bad("the result has a name twice");
}

/** Without the dims that are not kept. */
function sumOver({ x, names }: Named, keep: ReadonlySet<string>): Named {
  const dims = names.flatMap((name, dim) => (keep.has(name) ? [] : [dim]));
  return dims.length === 0 ? { x, names } : { x: x.sum(dims), names: names.filter((name) => keep.has(name)) };
}

function multiply(left: Named, right: Named, later: ReadonlySet<string>, out: DType | undefined): Named {
  const a = sumOver(left, new Set([...later, ...right.names]));
  const b = sumOver(right, new Set([...later, ...left.names]));
  const shared = a.names.filter((name) => b.names.includes(name));
  const dimsOf = (names: readonly string[]) =>
    [names.map((name) => a.names.indexOf(name)), names.map((name) => b.names.indexOf(name))] as const;
  const batch = shared.filter((name) => later.has(name));
  const contract = shared.filter((name) => !later.has(name));
  const free = ({ names }: Named) => names.filter((name) => !shared.includes(name));
  return {
    x: dot(a.x, b.x, { contract: dimsOf(contract), batch: dimsOf(batch), ...(out !== undefined && { out }) }),
    names: [...batch, ...free(a), ...free(b)],
  };
}
