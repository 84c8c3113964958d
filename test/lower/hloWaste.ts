/** What an optimized program does for nothing: slow contractions, conversions there and back, large copies. */
import { byteLength, dtypeInfo, parseScope, type Spec, showScope } from "../../src/core/index.ts";
import { calledBy, type HloText, type Instruction, parseHlo, specsOf } from "../../src/lower/hloText.ts";
import { type ListedOperation, listHlo } from "../../src/lower/index.ts";

const short = ({ dtype, shape }: Spec) => `${dtypeInfo(dtype).mlir}[${shape.join(",")}]`;

/** Layers by one name, so that lines of all of them are counted together. */
const place = (x: Pick<ListedOperation, "scope">) => showScope(x.scope).replace(/\blayers\.\d+/, "layers.N");

/** Lines in the order of their first, each with how often it runs. */
function counted(lines: Iterable<readonly [line: string, times: number]>): string[] {
  const sums = new Map<string, number>();
  for (const [line, times] of lines) sums.set(line, (sums.get(line) ?? 0) + times);
  return [...sums].map(([line, times]) => `${String(times).padStart(5)} × ${line}`);
}

/** Every contraction: how it runs, operands (ᵀ: transposed), result, place. */
export function contractionLines(hlo: string): string[] {
  const contractions = listHlo(hlo).filter(({ contracted }) => contracted !== undefined);
  return counted(
    contractions.map((x) => {
      const [a, b] = x.operands.map(short);
      const [left, right] = transposes(x);
      const product = `${a}${left ? "ᵀ" : ""} · ${b}${right ? "ᵀ" : ""} → ${short(x.results[0]!)}`;
      return [`${formOf(x).padEnd(7)} ${product.padEnd(58)} ${place(x)}`, x.repeats];
    }),
  );
}

const formOf = ({ op, target }: ListedOperation) => (target === "__onednn$matmul" ? "oneDNN" : op);

/** Whether an operand's contracted dim is not where a product of rows by columns has it: the left's last, the right's first. */
function transposes({ op, text, operands }: ListedOperation): [boolean, boolean] {
  if (op !== "dot") return [/"?transpose_a"?: ?true/.test(text), /"?transpose_b"?: ?true/.test(text)];
  const dims = (name: string) => (new RegExp(`${name}=\\{([\\d,]*)\\}`).exec(text)?.[1] ?? "").split(",").map(Number);
  const batch = /lhs_batch_dims=\{\d/.test(text) ? dims("lhs_batch_dims").length : 0;
  const left = dims("lhs_contracting_dims").includes(operands[0]!.shape.length - 1);
  return [!left, !dims("rhs_contracting_dims").includes(batch)];
}

/** A value: an instruction of a computation. */
interface Value {
  readonly computation: string;
  readonly instruction: Instruction;
}

/** Give their first operand's values, in another order or a part of them. */
const movers = new Set(["bitcast", "copy", "reshape", "transpose", "slice", "broadcast", "reverse", "dynamic-slice"]);

/** Follows values back to what computed them, through fusions and moves. */
class Origins {
  readonly #text: HloText;
  /** By computation, then name. */
  readonly #values = new Map<string, ReadonlyMap<string, Instruction>>();
  readonly #callers = new Map<string, Value>();

  constructor(text: HloText) {
    this.#text = text;
    for (const [computation, instructions] of text.computations) {
      this.#values.set(computation, new Map(instructions.map((x) => [x.name, x])));
      for (const instruction of instructions) {
        if (instruction.op !== "fusion" && instruction.op !== "call") continue;
        for (const called of calledBy(instruction)) this.#callers.set(called, { computation, instruction });
      }
    }
  }

  *values(): Iterable<Value> {
    for (const [computation, instructions] of this.#text.computations)
      for (const instruction of instructions) yield { computation, instruction };
  }

  /** What computed an operand. */
  of({ computation, instruction }: Value, operand: number): Value | undefined {
    let at: Value | undefined = this.#named(computation, instruction.operands[operand]?.name);
    for (let next = at && this.#before(at); next !== undefined; next = this.#before(next)) at = next;
    return at;
  }

  #named(computation: string, name: string | undefined): Value | undefined {
    const instruction = name === undefined ? undefined : this.#values.get(computation)?.get(name);
    return instruction && { computation, instruction };
  }

  #before({ computation, instruction }: Value): Value | undefined {
    if (movers.has(instruction.op)) return this.#named(computation, instruction.operands[0]?.name);
    const caller = this.#callers.get(computation);
    if (instruction.op === "parameter" && caller !== undefined)
      return this.#named(
        caller.computation,
        caller.instruction.operands[Number(/^\((\d+)\)/.exec(instruction.rest)?.[1])]?.name,
      );
    const [called] = instruction.op === "fusion" || instruction.op === "call" ? calledBy(instruction) : [];
    const root = called && this.#text.computations.get(called)?.find((x) => x.root);
    return root && root.op !== "tuple" ? { computation: called, instruction: root } : undefined;
  }
}

const dtypeOf = ({ instruction }: Value) => specsOf(instruction.type)[0]?.dtype;
const scopeOf = ({ instruction }: Value) => place({ scope: parseScope(instruction.scope ?? "") });

/** bfloat16 to float32 and back with nothing between. */
export function roundTrips(hlo: string): string[] {
  const origins = new Origins(parseHlo(hlo));
  const found = [...origins.values()].filter((value) => {
    if (value.instruction.op !== "convert" || dtypeOf(value) !== "bfloat16") return false;
    return widened(origins, value, 0);
  });
  return counted(found.map((x) => [`${x.instruction.type} ${scopeOf(x)}`, 1]));
}

/** Whether an operand is a bfloat16 value that was only converted to float32. */
function widened(origins: Origins, value: Value, operand: number): boolean {
  const from = origins.of(value, operand);
  if (from?.instruction.op !== "convert" || dtypeOf(from) !== "float32") return false;
  const before = origins.of(from, 0);
  return before !== undefined && dtypeOf(before) === "bfloat16";
}

/**
 * Contractions that XLA's CPU compiler runs at float32's rate or below although their operands are bfloat16: both operands
 * converted, or a dot whose left operand is contracted along another dim than its last.
 */
export function slowContractions(hlo: string): string[] {
  const origins = new Origins(parseHlo(hlo));
  const converted = [...origins.values()].filter(
    (value) =>
      (value.instruction.op === "dot" || value.instruction.rest.includes('"__onednn$matmul"')) &&
      [0, 1].every((operand) => widened(origins, value, operand)),
  );
  const columns = listHlo(hlo).filter(
    (x) => x.op === "dot" && x.operands[0]?.dtype === "bfloat16" && x.contracted! > 1 && transposes(x)[0],
  );
  return [
    ...counted(converted.map((x) => [`both operands converted: ${x.instruction.type} ${scopeOf(x)}`, 1])),
    ...counted(
      columns.map((x) => [`left operand contracted along its rows: ${short(x.results[0]!)} ${place(x)}`, x.repeats]),
    ),
  ];
}

export interface LargeCopy {
  readonly times: number;
  /** Of one. */
  readonly bytes: number;
  /** Dtype and shape. */
  readonly result: string;
  readonly place: string;
}

/** Operations that compute nothing. */
const copying = new Set([...movers, "concatenate", "pad", "dynamic-update-slice", "parameter", "constant", "tuple"]);

/** Loops that only write what is there elsewhere, `least` bytes or more, in their order. */
export function largeCopies(hlo: string, least: number): LargeCopy[] {
  const { computations } = parseHlo(hlo);
  const fused = new Map<string, string>();
  for (const instructions of computations.values())
    for (const x of instructions) if (x.op === "fusion") fused.set(x.name, calledBy(x)[0]!);
  const copies = new Map<string, LargeCopy>();
  for (const x of listHlo(hlo)) {
    const bytes = x.results.reduce((sum, spec) => sum + byteLength(spec), 0);
    const name = /^(?:ROOT )?%([\w.-]+)/.exec(x.text)?.[1] ?? "";
    const ops = x.op === "fusion" ? computations.get(fused.get(name) ?? "")?.map(({ op }) => op) : [x.op];
    if (x.free || bytes < least || !ops?.every((op) => copying.has(op))) continue;
    const copy = { times: x.repeats, bytes, result: x.results.map(short).join(" "), place: place(x) };
    const key = `${copy.result} ${copy.place}`;
    copies.set(key, { ...copy, times: copy.times + (copies.get(key)?.times ?? 0) });
  }
  return [...copies.values()];
}
