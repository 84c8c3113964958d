/** Calls into a plugin: one struct in, the same struct with its out fields filled, errors as PjrtError. */
import { HalfbyteError, PjrtError } from "../base/errors.ts";
import { argsStruct, type FunctionName, slotOffset } from "./functionTable.ts";
import { type FieldKind, type StructFields, type StructName, structLayout } from "./layouts.ts";
import { addressOf, functionAt, type NativeFunction, type Pointer, readString, viewAt } from "./native.ts";

interface KindToOutput {
  ptr: Pointer;
  usize: number;
  i64: number;
  i32: number;
  bool: boolean;
}
/** A pointer field takes an address or the memory itself, which is then kept alive during the call. */
interface KindToInput extends Omit<KindToOutput, "ptr" | "i64"> {
  ptr: Pointer | ArrayBufferView;
  i64: number | bigint;
}

type Mapped<N extends StructName, M extends Record<FieldKind, unknown>> = {
  -readonly [F in keyof StructFields<N>]: StructFields<N>[F] extends FieldKind ? M[StructFields<N>[F]] : never;
};
export type StructInput<N extends StructName> = Partial<Mapped<N, KindToInput & Record<FieldKind, unknown>>>;
export type StructOutput<N extends StructName> = Readonly<Mapped<N, KindToOutput & Record<FieldKind, unknown>>>;
type ArgsOf<F extends FunctionName> = `PJRT_${F}_Args` & StructName;

/** Writes a struct's fields (absent ones are zero) into `bytes` at `start`, which is zeroed memory of at least its size. */
export function writeStruct<N extends StructName>(name: N, input: StructInput<N>, bytes: Uint8Array, start = 0): void {
  const layout = structLayout(name);
  const view = new DataView(bytes.buffer, bytes.byteOffset + start);
  view.setBigUint64(0, BigInt(layout.size), true);
  const values = input as Readonly<Record<string, Pointer | ArrayBufferView | number | boolean | undefined>>;
  for (const { name: field, kind, offset } of layout.fields) {
    const value = values[field];
    if (value === undefined) continue;
    if (kind === "i32") view.setInt32(offset, value as number, true);
    else if (kind === "bool") view.setUint8(offset, value ? 1 : 0);
    else if (typeof value === "object") view.setBigUint64(offset, addressOf(value), true);
    else view.setBigInt64(offset, BigInt(value), true);
  }
}

export function encodeStruct<N extends StructName>(name: N, input: StructInput<N>): Uint8Array {
  const bytes = new Uint8Array(structLayout(name).stride);
  writeStruct(name, input, bytes);
  return bytes;
}

export function decodeStruct<N extends StructName>(name: N, bytes: ArrayBufferView, start = 0): StructOutput<N> {
  const view = new DataView(bytes.buffer, bytes.byteOffset + start);
  const out: Record<string, Pointer | number | boolean> = {};
  for (const { name: field, kind, offset } of structLayout(name).fields) {
    if (kind === "i32") out[field] = view.getInt32(offset, true);
    else if (kind === "bool") out[field] = view.getUint8(offset) !== 0;
    else if (kind === "ptr") out[field] = view.getBigUint64(offset, true);
    else out[field] = Number(view.getBigInt64(offset, true));
  }
  return out as StructOutput<N>;
}

/** The function table of one loaded plugin. */
export class PjrtApi {
  readonly version: { readonly major: number; readonly minor: number };
  readonly #table: DataView;
  readonly #functions = new Map<FunctionName, NativeFunction>();
  /**
   * What the last call pointed to, stored after each call: otherwise neither the engine nor a bundler sees that the memory
   * is still needed while native code runs. A property, because a variable that nobody reads is optimised away.
   * @internal
   */
  lastHeld: unknown;

  /** @param address of the plugin's PJRT_Api, which lives as long as the process. */
  constructor(address: Pointer) {
    const head = viewAt(address, 40);
    this.#table = viewAt(address, Number(head.getBigUint64(0, true)));
    this.version = { major: head.getInt32(32, true), minor: head.getInt32(36, true) };
  }

  /** Whether the plugin's table reaches as far as the function. */
  has(name: FunctionName): boolean {
    const offset = slotOffset(name);
    return offset + 8 <= this.#table.byteLength && this.#table.getBigUint64(offset, true) !== 0n;
  }

  /** The plugin's extension of a type, or undefined: the address of a struct that begins with its size, type and successor. */
  extension(type: number): Pointer | undefined {
    for (let at = this.#table.getBigUint64(8, true); at !== 0n; ) {
      const head = viewAt(at, 24);
      if (head.getInt32(8, true) === type) return at;
      at = head.getBigUint64(16, true);
    }
    return undefined;
  }

  /** Calls a function of an extension with its struct; `held` is kept alive during the call. @throws PjrtError */
  callExtension(address: Pointer, bytes: Uint8Array, held: unknown): void {
    const error = functionAt(address)(bytes);
    this.lastHeld = held;
    if (error !== null) throw this.#takeError(error);
  }

  /**
   * Calls a function on this thread. Memory that `input` names is kept alive during the call, and so is `held`: what that
   * memory points to in turn. @throws PjrtError with the plugin's status and message.
   */
  call<F extends FunctionName>(name: F, input: StructInput<ArgsOf<F>>, held?: unknown): StructOutput<ArgsOf<F>> {
    const bytes = encodeStruct(argsStruct(name), input);
    const error = this.#function(name)(bytes);
    this.lastHeld = [input, held];
    if (error !== null) throw this.#takeError(error);
    return decodeStruct(argsStruct(name), bytes);
  }

  /** As `call`, on a thread of the pool; the memory must stay as it is until then. */
  callAsync<F extends FunctionName>(
    name: F,
    input: StructInput<ArgsOf<F>>,
    held?: unknown,
  ): Promise<StructOutput<ArgsOf<F>>> {
    const bytes = encodeStruct(argsStruct(name), input);
    const native = this.#function(name);
    return new Promise((resolve, reject) => {
      native.async(bytes, (failure, error) => {
        this.lastHeld = [input, held];
        if (failure) reject(failure);
        else if (error !== null) reject(this.#takeError(error));
        else resolve(decodeStruct(argsStruct(name), bytes));
      });
    });
  }

  #function(name: FunctionName): NativeFunction {
    let native = this.#functions.get(name);
    if (native === undefined) {
      if (!this.has(name)) {
        const { major, minor } = this.version;
        throw new HalfbyteError("E_PLUGIN_OLD", `the PJRT plugin (API ${major}.${minor}) has no PJRT_${name}`);
      }
      native = functionAt(this.#table.getBigUint64(slotOffset(name), true));
      this.#functions.set(name, native);
    }
    return native;
  }

  /** The error's status and message; frees the native error. */
  #takeError(error: Pointer): PjrtError {
    const ask = <F extends "Error_GetCode" | "Error_Message" | "Error_Destroy">(name: F) => {
      const bytes = encodeStruct(argsStruct(name), { error } as StructInput<ArgsOf<F>>);
      // The last two return void: what koffi reads as their result means nothing.
      this.#function(name)(bytes);
      return decodeStruct(argsStruct(name), bytes);
    };
    const { code } = ask("Error_GetCode");
    const { message, message_size } = ask("Error_Message");
    const text = readString(message, message_size);
    ask("Error_Destroy");
    return new PjrtError(code, text);
  }
}
