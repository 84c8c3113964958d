/**
 * From a Program to StableHLO text, in MLIR's generic form. Operations say how they are lowered; a platform's table may
 * say otherwise. Equal operations on equal operands are emitted once.
 */
import { decodeArray } from "../core/codecs.ts";
import {
  currentScope,
  type DType,
  dtypeInfo,
  type Emitted,
  type Emitter,
  inputNames,
  type Program,
  type Region,
  type Scope,
  type Spec,
  showScope,
  type Tensor,
  toHostArray,
  type Values,
} from "../core/index.ts";
import type { AnyOp, Mesh } from "../core/op.ts";
import { type Partition, shardyMesh, shardyText } from "../sharding/index.ts";
import { contractedSize, type ListedOperation } from "./listing.ts";
import { type Origin, originOf, protectOperands } from "./rounding.ts";

/** Lowerings by operation that win over the operations' own; a rule may decline by returning undefined. */
export type LoweringTable = ReadonlyMap<AnyOp, (...args: Parameters<AnyOp["lower"]>) => readonly Emitted[] | undefined>;

export interface LoweringOptions {
  readonly name?: string;
  readonly platform?: LoweringTable;
  /** For each input, the output that takes over its memory, or undefined. */
  readonly aliases?: readonly (number | undefined)[];
  /** For a program on several devices: how its inputs and outputs lie on them. */
  readonly placement?: Placement;
  /** Collects the operations; the text then also holds scopes, as locations, and the inputs' names. */
  readonly listing?: ListedOperation[];
}

export interface Placement {
  readonly mesh: Mesh;
  readonly inputs: readonly Partition[];
  readonly outputs: readonly Partition[];
}

/** "tensor<8x512xbf16>". */
export function mlirType({ shape, dtype }: Spec): string {
  return `tensor<${[...shape, dtypeInfo(dtype).mlir].join("x")}>`;
}

/** Operations whose regions run by themselves; those of others say how to combine two elements. */
const control = new Set(["stablehlo.while", "stablehlo.if", "stablehlo.case", "sdy.manual_computation"]);

/** Operations whose equal uses must stay apart. */
const unmergeable = new Set(["stablehlo.optimization_barrier"]);

class TextEmitter implements Emitter {
  private lines: string[] = [];
  /** Texts of the functions beside the main one. */
  readonly functions: string[] = [];
  private indent = "    ";
  private next = 0;
  /** Emitted operations by text, innermost region last. */
  private scopes: Map<string, Emitted[]>[] = [new Map()];
  /** By the value's name. */
  private readonly origins = new Map<string, Origin>();
  private readonly platform: LoweringTable | undefined;
  readonly mesh: Mesh | undefined;
  partitioned: boolean;
  private listing: ListedOperation[] | undefined;
  /** Of the equation that is being lowered. */
  private scope: Scope = currentScope();
  /** How often the current region runs, and how often a region that begins here does within that. */
  private repeats = 1;
  private loop = 1;

  constructor({ platform, placement, listing }: LoweringOptions) {
    this.platform = platform;
    this.mesh = placement?.mesh;
    this.partitioned = this.mesh !== undefined;
    this.listing = listing;
  }

  text(): string {
    return this.lines.join("\n");
  }

  op(
    name: string,
    given: readonly Emitted[],
    results: readonly Spec[],
    attributes: Readonly<Record<string, string>> = {},
    regions: readonly Region[] = [],
  ): Emitted[] {
    const operands = protectOperands(this, name, given, (x) => this.origins.get(x.name));
    const listed = Object.entries(attributes).map(([key, value]) => `${key} = ${value}`);
    const properties =
      listed.length === 0
        ? ""
        : name === "stablehlo.custom_call"
          ? ` {${listed.join(", ")}}`
          : ` <{${listed.join(", ")}}>`;
    const types = `(${operands.map(mlirType).join(", ")}) -> ${results.length === 1 ? mlirType(results[0]!) : `(${results.map(mlirType).join(", ")})`}`;
    const head = `"${name}"(${operands.map((x) => x.name).join(", ")})`;
    const key = `${head}${properties}${types}`;
    if (regions.length === 0 && !unmergeable.has(name)) {
      for (const scope of this.scopes) {
        const known = scope.get(key);
        if (known) return known;
      }
    }
    const { listing } = this;
    const place = listing?.length ?? 0;
    const entry = {
      op: name.replace(/^stablehlo\./, ""),
      scope: this.scope,
      repeats: this.repeats,
      operands,
      results,
    };
    listing?.push({ ...entry, text: "" });
    if (!control.has(name)) this.listing = undefined;
    const body = regions.length === 0 ? "" : ` (${regions.map((region) => this.region(region)).join(", ")})`;
    this.listing = listing;
    const id = this.next++;
    const emitted = results.map((spec, i) => ({
      name: results.length === 1 ? `%${id}` : `%${id}#${i}`,
      shape: spec.shape,
      dtype: spec.dtype,
    }));
    const left = results.length === 0 ? "" : `%${id}${results.length === 1 ? "" : `:${results.length}`} = `;
    const where = listing === undefined ? "" : location(showScope(this.scope));
    this.lines.push(`${this.indent}${left}${head}${properties}${body} : ${types}${where}`);
    if (listing !== undefined) {
      const text = `${left}${head}${properties}${regions.length === 0 ? "" : " ({…})"} : ${types}`;
      const contracted = contractedSize(text, operands[0]);
      const [, target] = /call_target_name = "([^"]*)"/.exec(properties) ?? [];
      listing[place] = {
        ...entry,
        text: text.replace(/"0x[0-9A-F]{32,}"/, '"0x…"'),
        ...(contracted !== undefined && { contracted }),
        ...(target !== undefined && { target }),
        ...((control.has(name) || name === "stablehlo.constant") && { free: true }),
      };
    }
    if (regions.length === 0) {
      this.scopes.at(-1)!.set(key, emitted);
      const sources = operands.map((x) => this.origins.get(x.name));
      for (const x of emitted) this.origins.set(x.name, originOf(name, sources));
    }
    return emitted;
  }

  splat(value: number | boolean, spec: Spec): Emitted {
    const [constant] = this.op("stablehlo.constant", [], [spec], {
      value: `dense<${literal(value, spec.dtype)}> : ${mlirType(spec)}`,
    });
    this.origins.set(constant!.name, originOf("stablehlo.constant", [], Number(value)));
    return constant!;
  }

  dense(values: Values): Emitted {
    return this.op("stablehlo.constant", [], [values], {
      value: `dense<${denseLiteral(values)}> : ${mlirType(values)}`,
    })[0]!;
  }

  func(name: string, program: Program): string {
    const { lines, indent, scopes } = this;
    Object.assign(this, { lines: [], indent: "    ", scopes: [new Map()] });
    const id = this.next++;
    const symbol = `@${identifier(name)}_${id}`;
    const args = program.inputs.map((t, i) => ({ name: `%f${id}_${i}`, shape: t.shape, dtype: t.dtype }));
    const results = this.inline(program, args);
    const declared = { parameters: args.map((x) => `${x.name}: ${mlirType(x)}`), results: results.map(mlirType) };
    this.functions.push(functionText(`private ${symbol}`, declared, this.text(), results));
    Object.assign(this, { lines, indent, scopes });
    return symbol;
  }

  inline(program: Program, args: readonly Emitted[]): Emitted[] {
    const emitted = new Map<Tensor, Emitted>(program.inputs.map((t, i) => [t, args[i]!]));
    const { scope: outerScope, loop: outerLoop } = this;
    for (const { op, params, inputs, outputs, scope } of program.eqns) {
      this.scope = scope;
      this.loop = op.repeats?.(params) ?? 1;
      const operands = inputs.map((t) => emitted.get(program.resolve(t))!);
      const lowered =
        this.platform?.get(op)?.(this, operands, params, outputs) ?? op.lower(this, operands, params, outputs);
      outputs.forEach((t, i) => emitted.set(t, lowered[i]!));
    }
    this.scope = outerScope;
    this.loop = outerLoop;
    return program.outputs.map((t) => emitted.get(t)!);
  }

  private region({ inputs, body, perDevice = false }: Region): string {
    const { lines: outer, scopes, partitioned, repeats, loop } = this;
    this.repeats *= loop;
    this.loop = 1;
    this.lines = [];
    this.scopes = [...(perDevice ? [] : scopes), new Map()];
    this.partitioned = partitioned && !perDevice;
    const id = this.next++;
    const args = inputs.map((spec, i) => ({ name: `%r${id}_${i}`, shape: spec.shape, dtype: spec.dtype }));
    const indent = this.indent;
    this.indent = `${indent}  `;
    const results = body(...args);
    const types = results.map(mlirType).join(", ");
    const end = perDevice ? "sdy.return" : "stablehlo.return";
    this.lines.push(`${this.indent}"${end}"(${results.map((x) => x.name).join(", ")}) : (${types}) -> ()`);
    const block = `${indent}^bb0${args.length ? `(${args.map((a) => `${a.name}: ${mlirType(a)}`).join(", ")})` : ""}:`;
    const text = `{\n${[block, ...this.lines].join("\n")}\n${indent}}`;
    Object.assign(this, { indent, scopes, partitioned, repeats, loop, lines: outer });
    return text;
  }
}

/** A module with one function `main` that computes the program. */
export function lowerToStableHlo(program: Program, options: LoweringOptions = {}): string {
  const { name = "main", aliases = [], placement, listing } = options;
  const emitter = new TextEmitter(options);
  const names = listing && inputNames(program);
  const args = program.inputs.map((t, i) => ({
    name: names ? `%${names[i]!.replace(/[^\w.$-]/g, "_")}` : `%arg${i}`,
    shape: t.shape,
    dtype: t.dtype,
  }));
  const results = emitter.inline(program, args);
  const donated = (i: number) => (aliases[i] === undefined ? [] : [`tf.aliasing_output = ${aliases[i]} : i32`]);
  const sharded = (x: Spec, partition: Partition | undefined) =>
    partition === undefined ? [] : [`sdy.sharding = #sdy.sharding${shardyText(partition, x.shape.length)}`];
  const braced = (list: readonly string[]) => (list.length === 0 ? "" : ` {${list.join(", ")}}`);
  const parameters = args.map((arg, i) => {
    const attributes = braced([...donated(i), ...sharded(arg, placement?.inputs[i])]);
    return `${arg.name}: ${mlirType(arg)}${attributes}${names ? location(names[i]!) : ""}`;
  });
  const declared = results.map((x, i) => `${mlirType(x)}${braced(sharded(x, placement?.outputs[i]))}`);
  return [
    `module @${identifier(name)} {`,
    ...(placement === undefined ? [] : [`  ${shardyMesh(placement.mesh)}`]),
    functionText("public @main", { parameters, results: declared }, emitter.text(), results),
    ...emitter.functions,
    "}",
    "",
  ].join("\n");
}

/** A name as MLIR takes it unquoted. */
const identifier = (name: string): string => name.replace(/\W/g, "_").replace(/^(?=\d|$)/, "_");

function functionText(
  head: string,
  declared: { readonly parameters: readonly string[]; readonly results: readonly string[] },
  body: string,
  results: readonly Emitted[],
): string {
  return [
    `  func.func ${head}(${declared.parameters.join(", ")}) -> (${declared.results.join(", ")}) {`,
    ...(body === "" ? [] : [body]),
    `    "func.return"(${results.map((x) => x.name).join(", ")}) : (${results.map(mlirType).join(", ")}) -> ()`,
    "  }",
  ].join("\n");
}

const location = (name: string): string => (name === "" ? "" : ` loc(${JSON.stringify(name)})`);

/** One value as MLIR writes it; non-finite floats as bits. */
function literal(value: number | boolean, dtype: DType): string {
  if (typeof value === "boolean") return String(value);
  const { kind } = dtypeInfo(dtype);
  if (kind === "bool") return String(value !== 0);
  if (kind !== "float") return String(value);
  const [rounded] = decodeArray(dtype, encode(value, dtype).data) as Float32Array;
  if (!Number.isFinite(rounded)) return `0x${hexOfBytes(bigEndian(encode(value, dtype).data))}`;
  const text = Object.is(rounded, -0) ? "-0.0" : String(rounded);
  if (/^-?\d+$/.test(text)) return `${text}.0`;
  return text.replace(/^(-?\d+)e/, "$1.0e").replace("e+", "e");
}

const encode = (value: number, dtype: DType) => toHostArray({ shape: [], dtype, data: Float64Array.of(value) });

function denseLiteral(values: Values): string {
  if (values.data.length === 0) return literal(0, values.dtype);
  if (dtypeInfo(values.dtype).bits < 8 || values.dtype === "bool") {
    return nested(
      values.shape,
      Array.from(values.data, (v) => literal(v, values.dtype)),
    );
  }
  const { data } = toHostArray(values);
  return `"0x${hexOfBytes(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))}"`;
}

function nested(shape: readonly number[], items: readonly string[]): string {
  if (shape.length === 0) return items[0]!;
  const size = items.length / shape[0]!;
  const rows = Array.from({ length: shape[0]! }, (_, i) =>
    nested(shape.slice(1), items.slice(i * size, (i + 1) * size)),
  );
  return `[${rows.join(", ")}]`;
}

const bigEndian = (data: ArrayBufferView): Uint8Array =>
  new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice().reverse();
const hexOfBytes = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex").toUpperCase();
