/** What a list of operations amounts to: FLOPs, bytes, contractions by format and pass, conversions, copies, calls. */
import { byteLength, type DType, dtypeInfo, type Scope } from "../core/index.ts";
import { bytesOf, flopsOf, type ListedOperation } from "./listing.ts";

export interface Tally {
  readonly name: string;
  /** Runs, a loop's body counted as often as it runs. */
  readonly calls: number;
  readonly flops: number;
  readonly bytes: number;
}

export interface GemmTally extends Tally {
  /** "BF16", "FP32", or what the operands are quantized to and computed as: "NVFP4 (emulated)". */
  readonly format: string;
  /**
   * "fprop", "dgrad", "wgrad" of linear layers, "wgrad.quantize" of rotations; "forward", "backward", "recompute" of
   * other contractions.
   */
  readonly pass: string;
}

export interface Counts {
  readonly operations: number;
  /** Of contractions. */
  readonly flops: number;
  /** Operands read and results written, by each operation for itself. */
  readonly bytes: number;
  readonly gemms: readonly GemmTally[];
  readonly converts: readonly Tally[];
  /** Copies of more than `largeCopyBytes`. */
  readonly copies: readonly Tally[];
  readonly customCalls: readonly Tally[];
  /** Groups of operations of one kind at one place of the model (layers together) that move most, largest first. */
  readonly topByBytes: readonly Tally[];
}

export const largeCopyBytes = 1_000_000;
const topGroups = 8;

export function countOperations(operations: readonly ListedOperation[]): Counts {
  const sum = (f: (x: ListedOperation) => number) => operations.reduce((total, x) => total + x.repeats * f(x), 0);
  const gemms = tallies(operations, (x) => (x.contracted === undefined ? undefined : gemmName(x)));
  return {
    operations: operations.length,
    flops: sum(flopsOf),
    bytes: sum(bytesOf),
    gemms: gemms
      .map((tally) => {
        const [format, pass] = tally.name.split(", ") as [string, string];
        return { ...tally, format, pass };
      })
      .sort((a, b) => a.format.localeCompare(b.format) || passOrder(a.pass) - passOrder(b.pass)),
    converts: tallies(operations, convertName),
    copies: tallies(operations, copyName),
    customCalls: tallies(operations, ({ target }) => target),
    topByBytes: tallies(operations, (x) => (bytesOf(x) === 0 ? undefined : placeName(x))).slice(0, topGroups),
  };
}

const passes = ["fprop", "dgrad", "wgrad", "forward", "backward", "recompute"];
const passOrder = (pass: string): number => (passes.includes(pass) ? passes.indexOf(pass) : passes.length);

/** Sums by name, most bytes first; operations without a name are left out. */
function tallies(operations: readonly ListedOperation[], name: (x: ListedOperation) => string | undefined): Tally[] {
  const found = new Map<string, { name: string; calls: number; flops: number; bytes: number }>();
  for (const x of operations) {
    const key = name(x);
    if (key === undefined) continue;
    const tally = found.get(key) ?? { name: key, calls: 0, flops: 0, bytes: 0 };
    tally.calls += x.repeats;
    tally.flops += x.repeats * flopsOf(x);
    tally.bytes += x.repeats * bytesOf(x);
    found.set(key, tally);
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes);
}

function gemmName({ scope, operands }: ListedOperation): string {
  const plain = shortDtype(operands[0]!.dtype);
  const format =
    scope.format === "" ? plain : `${scope.format.toUpperCase().replace("×PLAIN", ` × ${plain}`)} (emulated)`;
  return `${format}, ${scope.pass || "forward"}`;
}

/** "BF16", "FP32", "INT32". */
function shortDtype(dtype: DType): string {
  if (dtype === "bfloat16") return "BF16";
  const { kind, bits } = dtypeInfo(dtype);
  return `${kind === "float" ? "FP" : kind.toUpperCase()}${bits}`;
}

function convertName({ op, operands, results }: ListedOperation): string | undefined {
  return op === "convert" ? `${operands[0]!.dtype} → ${results[0]!.dtype}` : undefined;
}

function copyName(x: ListedOperation): string | undefined {
  if (!x.op.startsWith("copy") || x.op === "copy-done" || x.results.length === 0) return undefined;
  return byteLength(x.results[0]!) > largeCopyBytes ? placeName(x) : undefined;
}

/** "dot layers.*.mlp.gate:wgrad": the kind and the place, all layers together. */
function placeName({ op, target, scope }: ListedOperation): string {
  return `${target ?? op} ${placeOf(scope)}`;
}

const placeOf = ({ path, pass }: Scope): string =>
  `${path.replace(/(^|\.)\d+(-\d+)?(?=\.|$)/g, "$1*") || "(no layer)"}${pass && `:${pass}`}`;
