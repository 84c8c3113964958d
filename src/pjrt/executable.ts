/** A compiled program: running it, and what is known about it. */
import { HalfbyteError, invariant, UserError } from "../base/errors.ts";
import { type DType, dtypeInfo, dtypes } from "../core/dtype.ts";
import { type Spec, showSpec } from "../core/hostArray.ts";
import { type Sharding, wholeShape } from "../sharding/index.ts";
import { encodeStruct } from "./api.ts";
import type { Client, Dispatched } from "./client.ts";
import type { CompileOptions } from "./compileOptions.ts";
import { DeviceArray } from "./deviceArray.ts";
import { addressOf, callDeleter, copyBytes, type Pointer, readString, viewAt } from "./native.ts";

/** How one run goes. */
export interface ExecuteOptions {
  /** Inputs by index that keep their memory although the program's text donates them. */
  readonly nonDonatable?: readonly number[];
  /** How each output lies on its mesh; the arrays then have the whole shapes. */
  readonly outputShardings?: readonly Sharding[];
}

/** Outputs of a run that is under way. */
export interface Execution {
  /** One array per output of the program, at once usable as inputs or for `toHost()`, which waits. */
  readonly outputs: readonly DeviceArray[];
  /**
   * Resolves when every device is done, rejects where one failed. A failure that nobody asks for here is thrown by the
   * client's next `execute` or `synchronize`.
   */
  readonly done: Promise<void>;
}

/** Bytes per device, as the compiler planned them. */
export interface MemoryStats {
  readonly argumentBytes: number;
  readonly outputBytes: number;
  /** Argument memory reused for outputs (donation). */
  readonly aliasBytes: number;
  readonly temporaryBytes: number;
  readonly generatedCodeBytes: number;
  readonly peakBytes: number;
}

const dtypeOfPjrt = new Map<number, DType>(dtypes.map((dtype) => [dtypeInfo(dtype).pjrt, dtype]));

/**
 * XLA's CPU compiler runs a oneDNN call as a step of its own kind but writes it as an ordinary custom call: serializing
 * such a program reads foreign memory and ends the process.
 */
const oneDnnCall = "__onednn$";

/** Whether the plugin can serialize what it compiles from this StableHLO. Options may bring oneDNN in, too. */
export function canSerialize(mlir: string, { envOverrides = {} }: CompileOptions = {}): boolean {
  const flags = [...Object.keys(envOverrides), process.env.XLA_FLAGS ?? ""];
  return !mlir.includes(oneDnnCall) && !flags.some((flag) => flag.includes("onednn"));
}

/** Where a program comes from: compiled, or loaded. */
export interface ExecutableOrigin {
  /** Loaded from bytes rather than compiled. */
  readonly deserialized: boolean;
  readonly serializable: boolean;
}

/** A compiled program on its devices. */
export class Executable {
  readonly client: Client;
  readonly name: string;
  /** Devices it runs on, one piece of every array on each. */
  readonly numDevices: number;
  /** Shape (of a device's piece) and dtype of each output. */
  readonly outputs: readonly Spec[];
  readonly origin: ExecutableOrigin;
  readonly #loaded: Pointer;
  readonly #description: Pointer;
  #disposed = false;

  /** Takes ownership of a loaded executable. Made by `Client.compile` and `Client.deserialize`. */
  constructor(client: Client, loaded: Pointer, origin: ExecutableOrigin) {
    const { api } = client;
    this.client = client;
    this.origin = origin;
    this.#loaded = loaded;
    this.#description = api.call("LoadedExecutable_GetExecutable", { loaded_executable: loaded }).executable;
    const executable = this.#description;
    try {
      const { executable_name, executable_name_size } = api.call("Executable_Name", { executable });
      this.name = readString(executable_name, executable_name_size);
      this.numDevices = api.call("LoadedExecutable_AddressableDevices", { executable: loaded }).num_addressable_devices;
      this.outputs = readOutputs(client, executable);
    } catch (error) {
      this.dispose();
      throw error;
    }
    client.executables.add(this);
  }

  /**
   * Dispatches the program and resolves before it has run: at once, unless the client has its limit of steps in flight.
   * Inputs are borrowed, but for those the program donates: these can't be used once the call has dispatched.
   *
   * @throws UserError where inputs are on the wrong number of devices; PjrtError where the plugin refuses the call.
   */
  execute(inputs: readonly DeviceArray[], options: ExecuteOptions = {}): Promise<Execution> {
    return this.client.runStep(() => this.#dispatch(inputs, options));
  }

  #dispatch(inputs: readonly DeviceArray[], { nonDonatable = [], outputShardings }: ExecuteOptions): Dispatched {
    this.#assertUsable();
    const { client, numDevices } = this;
    const pieces = inputs.map((input, i) => {
      const { buffers } = input;
      if (input.client !== client)
        throw new UserError("E_DEVICE", `input ${i} of ${this.name} belongs to another client`);
      if (buffers.length !== numDevices) {
        const counts = `${buffers.length} device(s); the program runs on ${numDevices}`;
        throw new UserError("E_DEVICE", `input ${i} of ${this.name}, ${showSpec(input)}, is on ${counts}`);
      }
      return buffers;
    });
    const argumentLists = Array.from({ length: numDevices }, (_, device) =>
      BigUint64Array.from(pieces, (buffers) => buffers[device]!),
    );
    const outputLists = argumentLists.map(() => new BigUint64Array(this.outputs.length));
    const events = new BigUint64Array(numDevices);
    const kept = BigInt64Array.from(nonDonatable, BigInt);
    const held = [argumentLists, outputLists, kept];
    try {
      const call = {
        executable: this.#loaded,
        options: encodeStruct("PJRT_ExecuteOptions", {
          non_donatable_input_indices: kept,
          num_non_donatable_input_indices: kept.length,
        }),
        argument_lists: BigUint64Array.from(argumentLists, addressOf),
        num_devices: numDevices,
        num_args: inputs.length,
        output_lists: BigUint64Array.from(outputLists, addressOf),
        device_complete_events: events,
      };
      client.api.call("LoadedExecutable_Execute", call, held);
    } finally {
      this.#releaseDonated(inputs);
    }
    const outputs = this.outputs.map(({ shape, dtype }, i) => {
      const sharding = outputShardings?.[i];
      const whole = sharding === undefined ? shape : wholeShape(shape, sharding);
      const buffers = outputLists.map((list) => list[i]!);
      return new DeviceArray(client, { shape: whole, dtype }, buffers, sharding);
    });
    return { outputs, events: [...events] };
  }

  /** Whatever the call donated is deleted by now; a deleted buffer must still be destroyed. */
  #releaseDonated(inputs: readonly DeviceArray[]): void {
    for (const input of inputs) {
      if (!input.isLive) continue;
      const buffer = input.buffers[0]!;
      if (this.client.api.call("Buffer_IsDeleted", { buffer }).is_deleted) input.release(`donated to ${this.name}`);
    }
  }

  /** What XLA planned for one run, in bytes. */
  memoryStats(): MemoryStats {
    this.#assertUsable();
    const stats = this.client.api.call("Executable_GetCompiledMemoryStats", { executable: this.#description });
    return {
      argumentBytes: stats.argument_size_in_bytes,
      outputBytes: stats.output_size_in_bytes,
      aliasBytes: stats.alias_size_in_bytes,
      temporaryBytes: stats.temp_size_in_bytes,
      generatedCodeBytes: stats.generated_code_size_in_bytes,
      peakBytes: stats.peak_memory_in_bytes,
    };
  }

  /** Equal for equal program, options and compiler. */
  fingerprint(): string {
    this.#assertUsable();
    const result = this.client.api.call("Executable_Fingerprint", { executable: this.#description });
    const bytes = copyBytes(result.executable_fingerprint, result.executable_fingerprint_size);
    return Buffer.from(bytes).toString("hex");
  }

  /** The optimized program, a serialized HloModuleProtoWithConfig. */
  optimizedHlo(): Uint8Array {
    this.#assertUsable();
    const query = encodeStruct("PJRT_Program", {});
    const view = new DataView(query.buffer);
    this.client.api.call("Executable_OptimizedProgram", { executable: this.#description, program: query });
    const codeOffset = 16;
    const code = new Uint8Array(Number(view.getBigUint64(codeOffset + 8, true)));
    view.setBigUint64(codeOffset, addressOf(code), true);
    this.client.api.call("Executable_OptimizedProgram", { executable: this.#description, program: query }, code);
    return code;
  }

  /**
   * Bytes from which `Client.deserialize` makes the program again. Only for the very plugin that made them: another one
   * loads them without an error, so key a cache by `pluginIdentity`.
   * @throws HalfbyteError (E_SERIALIZE) where the plugin can't write the program (`canSerialize`)
   */
  serialize(): Uint8Array {
    this.#assertUsable();
    if (!this.origin.serializable)
      throw new HalfbyteError("E_SERIALIZE", `the program ${this.name} can't be serialized: it calls oneDNN`);
    const result = this.client.api.call("Executable_Serialize", { executable: this.#description });
    const bytes = copyBytes(result.serialized_bytes, result.serialized_bytes_size);
    callDeleter(result.serialized_executable_deleter, result.serialized_executable);
    return bytes;
  }

  /** Frees the program; executions in flight finish. Again it does nothing. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.client.executables.delete(this);
    this.client.api.call("Executable_Destroy", { executable: this.#description });
    this.client.api.call("LoadedExecutable_Destroy", { executable: this.#loaded });
  }

  /** Frees the program, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  #assertUsable(): void {
    this.client.assertOpen();
    if (this.#disposed) throw new HalfbyteError("E_DELETED", `the program ${this.name} can't be used: it was disposed`);
  }
}

function readOutputs({ api }: Client, executable: Pointer): Spec[] {
  const { output_types, num_output_types } = api.call("Executable_OutputElementTypes", { executable });
  const { num_outputs, dims, dim_sizes } = api.call("Executable_OutputDimensions", { executable });
  invariant(num_outputs === num_output_types, "a program's output types and dimensions differ in number");
  const types = viewAt(output_types, 4 * num_outputs);
  const ranks = viewAt(dim_sizes, 8 * num_outputs);
  const rankOf = (i: number) => Number(ranks.getBigUint64(8 * i, true));
  let numDims = 0;
  for (let i = 0; i < num_outputs; i++) numDims += rankOf(i);
  const dimensions = viewAt(dims, 8 * numDims);
  let next = 0;
  return Array.from({ length: num_outputs }, (_, i) => {
    const type = types.getInt32(4 * i, true);
    const dtype = dtypeOfPjrt.get(type);
    if (dtype === undefined)
      throw new UserError("E_DTYPE", `output ${i} has PJRT element type ${type}, which Halfbyte has no dtype for`);
    const shape = Array.from({ length: rankOf(i) }, () => Number(dimensions.getBigInt64(8 * next++, true)));
    return { shape, dtype };
  });
}
