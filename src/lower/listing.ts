/**
 * The operations of a program at any stage of its way (equations, StableHLO, optimized HLO) as one kind of list, which is
 * filtered, counted and shown alike.
 */
import { byteLength, type Scope, type Spec, sizeOf } from "../core/index.ts";

/** An emitted operation with the equation it comes from. */
export interface ListedOperation {
  /** One line, as it stands in the program, without its scope. */
  readonly text: string;
  /** "dot", "dot_general", "fusion". */
  readonly op: string;
  readonly scope: Scope;
  /** How often a run of the program runs it. */
  readonly repeats: number;
  readonly operands: readonly Spec[];
  readonly results: readonly Spec[];
  /** Of a contraction: the product of the sizes of the dims it sums over. */
  readonly contracted?: number;
  /** Of a custom call: what it calls. */
  readonly target?: string;
  /** Moves nothing: part of a fusion, or only another view of its operand. */
  readonly free?: boolean;
}

/** Of one run: two for each product of a contraction (multiply, add). Other operations count as none. */
export function flopsOf({ results, contracted }: ListedOperation): number {
  return contracted === undefined ? 0 : 2 * sizeOf(results[0]!.shape) * contracted;
}

/** Of one run: operands read and results written. */
export function bytesOf({ operands, results, free }: ListedOperation): number {
  return free ? 0 : [...operands, ...results].reduce((sum, spec) => sum + byteLength(spec), 0);
}

/** The contracted size of a product, from its text in StableHLO or HLO; undefined for what is none. */
export function contractedSize(text: string, left: Spec | undefined): number | undefined {
  if (left === undefined) return undefined;
  const [, dims] = /lhs_contracting_dim(?:ension)?s\s*=\s*[[{]([\d, ]*)[\]}]/.exec(text) ?? [];
  if (dims !== undefined) {
    return sizeOf(dims.split(",").flatMap((dim) => (dim.trim() === "" ? [] : [left.shape[Number(dim)]!])));
  }
  const [, attention] = /"halfbyte_attention_(forward|backward)"/.exec(text) ?? [];
  // Two products of the forward pass, five of the backward, over (T + 1) / 2 positions each; the operand is [B, T, N, H].
  if (attention !== undefined) return ((attention === "forward" ? 2 : 5) / 2) * (left.shape[1]! + 1);
  if (!text.includes('"__onednn$matmul"')) return undefined;
  return left.shape.at(/transpose_a(\\22|")?: ?true/.test(text) ? -2 : -1);
}

export interface ListingFilter {
  /** Name of the operation or of what it calls, or a pattern with `*`; "dot" is every contraction. */
  readonly op?: string | undefined;
  /** Part of a scope's path, and after a colon of its pass: "3", "mlp.gate", "head", "3.attn.q:wgrad". */
  readonly layer?: string | undefined;
}

export function filterOperations(
  operations: readonly ListedOperation[],
  { op, layer }: ListingFilter,
): ListedOperation[] {
  const matches = op === undefined ? () => true : opMatcher(op);
  return operations.filter((x) => matches(x) && (layer === undefined || inLayer(x.scope, layer)));
}

function opMatcher(pattern: string): (operation: ListedOperation) => boolean {
  if (pattern === "dot") return ({ contracted }) => contracted !== undefined;
  const bare = pattern.replace(/^stablehlo\./, "");
  const source = bare.replace(/[\\^$.+()[\]|?{}]/g, "\\$&").replaceAll("*", ".*");
  const regex = new RegExp(`^${source}$`);
  return ({ op, target }) => regex.test(op) || (target !== undefined && regex.test(target));
}

function inLayer(scope: Scope, layer: string): boolean {
  const [path = "", pass] = layer.split(":");
  const within = path === "" || `.${withLayer(scope.path, path)}.`.includes(`.${path}.`);
  return within && (pass === undefined || scope.pass === pass || scope.pass.startsWith(`${pass}.`));
}

/** A loop over layers, "layers.0-11", as the one of them that is asked for. */
function withLayer(path: string, asked: string): string {
  const [, number] = /(?:^|\.)(\d+)(?:\.|$)/.exec(asked) ?? [];
  if (number === undefined) return path;
  const [layer, pattern] = [Number(number), /(^|\.)(\d+)-(\d+)(?=\.|$)/];
  return path.replace(pattern, (all, dot: string, first: string, last: string) =>
    Number(first) <= layer && layer <= Number(last) ? `${dot}${number}` : all,
  );
}

/** What `layer` may be to find something: paths and the runs of names in them. */
export function layerNames(operations: readonly ListedOperation[]): string[] {
  const names = new Set<string>();
  for (const { path } of new Set(operations.map(({ scope }) => scope))) {
    const parts = path.split(".");
    parts.forEach((_, i) => {
      for (let end = i + 1; end <= parts.length; end++) names.add(parts.slice(i, end).join("."));
    });
  }
  names.delete("");
  return [...names];
}
