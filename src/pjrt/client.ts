/** The client: the owner of a plugin's devices, of every array and program on them, and of the steps in flight. */
import { HalfbyteError, UserError } from "../base/errors.ts";
import type { PjrtApi } from "./api.ts";
import { encodeStruct } from "./api.ts";
import { type CompileOptions, encodeCompileOptions } from "./compileOptions.ts";
import { type DeviceArray, type Holding, measure, release } from "./deviceArray.ts";
import { checkEnvironment } from "./environmentChoices.ts";
import { EventLane } from "./events.ts";
import { canSerialize, Executable, type Execution } from "./executable.ts";
import { encodeNamedValues } from "./namedValues.ts";
import { type Pointer, readString, viewAt } from "./native.ts";
import { loadPlugin, locatePlugin, type Plugin } from "./plugin.ts";
import { pjrtStatus } from "./status.ts";
import { StepSlots } from "./stepSlots.ts";

/** Which plugin, and how many devices. */
export interface ClientOptions {
  /** A loaded plugin, or the path of one (default: HALFBYTE_PJRT_PLUGIN, then the cache). */
  readonly plugin?: Plugin | string;
  /** Virtual devices of a CPU client, from 1 to 64 (default 1). */
  readonly devices?: number;
  /** Whether programs may call the native CPU kernels that the set-up builds (default "auto": where they are there and right). */
  readonly nativeKernels?: "auto" | "off";
}

/** What a dispatched program gives: its outputs and one event per device. @internal */
export interface Dispatched {
  readonly outputs: readonly DeviceArray[];
  readonly events: readonly Pointer[];
}

/** One device of a client. */
export interface Device {
  readonly id: number;
  readonly kind: string;
  /** @internal */
  readonly handle: Pointer;
}

/**
 * More than 32 partitioned executions in flight per device can hang for ever: dispatch then blocks the threads that the
 * collectives need.
 */
const maxStepsInFlight = 8;

/** A plugin's devices: owns their memory and compiles for them. */
export class Client {
  readonly plugin: Plugin;
  readonly platformName: string;
  readonly platformVersion: string;
  readonly devices: readonly Device[];
  /** What the options say of native kernels; `nativeKernels(client)` tells whether they are used. @internal */
  readonly nativeKernelsWanted: boolean;
  /** Arrays that were dropped without `dispose()`. */
  readonly leaked = { arrays: 0, bytes: 0 };
  /** @internal */
  readonly handle: Pointer;
  /** @internal */
  readonly holdings = new Set<Holding>();
  /** @internal */
  readonly executables = new Set<Executable>();
  /** Waits for copies to the host. @internal */
  readonly transfers: EventLane;
  readonly #steps: EventLane;
  readonly #slots = new StepSlots(maxStepsInFlight);
  /** Compiles, loads and copies to the host. */
  readonly #running = new Set<Promise<unknown>>();
  #failure: { readonly error: unknown } | undefined;
  #closed = false;

  /** @throws UserError where options, the environment or the plugin's file are wrong; PjrtError where the plugin refuses. */
  constructor(options: ClientOptions = {}) {
    const { devices } = options;
    if (devices !== undefined && !(Number.isInteger(devices) && devices >= 1 && devices <= 64)) {
      throw new UserError("E_DEVICES", `devices must be a whole number from 1 to 64; got ${devices}`);
    }
    checkEnvironment();
    const { plugin, nativeKernels = "auto" } = options;
    this.nativeKernelsWanted = nativeKernels === "auto";
    this.plugin =
      typeof plugin === "object" ? plugin : loadPlugin(plugin === undefined ? locatePlugin() : { path: plugin });
    const { api } = this;
    this.handle = createHandle(api, devices);
    this.transfers = new EventLane(api, 2);
    this.#steps = new EventLane(api, 1);
    const client = this.handle;
    const name = api.call("Client_PlatformName", { client });
    this.platformName = readString(name.platform_name, name.platform_name_size);
    const version = api.call("Client_PlatformVersion", { client });
    this.platformVersion = readString(version.platform_version, version.platform_version_size);
    this.devices = readDevices(api, client);
  }

  get api(): PjrtApi {
    return this.plugin.api;
  }

  /** Live arrays and their bytes on all devices. */
  get liveBuffers(): { readonly arrays: number; readonly bytes: number } {
    return measure(this.holdings);
  }

  /** Steps dispatched and not yet done. */
  get stepsInFlight(): number {
    return this.#slots.used;
  }

  /** The options of a compilation on this client's devices, as the plugin gets them. @throws UserError */
  encodeOptions(options: CompileOptions): Uint8Array {
    return encodeCompileOptions(this.#withDevices(options));
  }

  /**
   * Compiles StableHLO text off the event loop, with excess precision off.
   * @throws PjrtError with the compiler's message; UserError for options that don't fit.
   */
  async compile(mlir: string, options: CompileOptions = {}): Promise<Executable> {
    this.assertOpen();
    const compileOptions = this.encodeOptions(options);
    const code = Buffer.from(mlir);
    const format = Buffer.from("mlir");
    const program = encodeStruct("PJRT_Program", {
      code,
      code_size: code.length,
      format,
      format_size: format.length,
    });
    const input = {
      client: this.handle,
      program,
      compile_options: compileOptions,
      compile_options_size: compileOptions.length,
    };
    const { executable } = await this.track(this.api.callAsync("Client_Compile", input, [code, format]));
    return new Executable(this, executable, { deserialized: false, serializable: canSerialize(mlir, options) });
  }

  /** Loads a program that `Executable.serialize` of the very same plugin wrote. @throws PjrtError where the bytes are damaged. */
  async deserialize(bytes: Uint8Array): Promise<Executable> {
    this.assertOpen();
    const input = {
      client: this.handle,
      serialized_executable: bytes,
      serialized_executable_size: bytes.length,
    };
    const { loaded_executable } = await this.track(this.api.callAsync("Executable_DeserializeAndLoad", input));
    return new Executable(this, loaded_executable, { deserialized: true, serializable: true });
  }

  /** Waits until no step is in flight. @throws the failure of a step that nobody has seen. */
  async synchronize(): Promise<void> {
    await this.#slots.idle();
    this.#throwFailure();
  }

  /**
   * Waits for all work, frees every array and program, then the client. An orderly end, for tests and servers: a process
   * that just exits needs none of it, and on a failure it would wait for the work in flight.
   */
  async destroy(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#slots.idle();
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
    for (const holding of [...this.holdings]) release(holding, "freed when its client was destroyed");
    for (const executable of [...this.executables]) executable.dispose();
    await this.api.callAsync("Client_Destroy", { client: this.handle });
  }

  /** @throws HalfbyteError (E_DELETED) after `destroy()`. @internal */
  assertOpen(): void {
    if (this.#closed) throw new HalfbyteError("E_DELETED", "the client can't be used: it was destroyed");
  }

  /**
   * Runs `dispatch` as soon as a slot among the steps in flight is free (at once, where one is) and watches the step until
   * its devices are done. @internal
   */
  async runStep(dispatch: () => Dispatched): Promise<Execution> {
    const turn = this.#slots.acquire();
    if (turn !== undefined) await turn;
    try {
      this.assertOpen();
      this.#throwFailure();
      const { outputs, events } = dispatch();
      return this.#watch(outputs, events);
    } catch (error) {
      this.#slots.release();
      throw error;
    }
  }

  #watch(outputs: readonly DeviceArray[], events: readonly Pointer[]): Execution {
    const step: { observed: boolean; failure?: { readonly error: unknown } } = { observed: false };
    const done = Promise.allSettled(events.map((event) => this.#steps.wait(event))).then((results) => {
      const failed = results.find((result) => result.status === "rejected");
      if (failed !== undefined && !step.observed) {
        step.failure = { error: failed.reason };
        this.#failure ??= step.failure;
      }
      this.#slots.release();
      if (failed !== undefined) throw failed.reason;
    });
    // Nothing is lost: a failure that nobody observes is kept for the next call.
    done.catch(() => {});
    const observe = () => {
      step.observed = true;
      if (step.failure !== undefined && this.#failure === step.failure) this.#failure = undefined;
    };
    return {
      outputs,
      get done() {
        observe();
        return done;
      },
    };
  }

  /** Keeps the client from being destroyed while a compile or copy runs. @internal */
  async track<T>(call: Promise<T>): Promise<T> {
    this.#running.add(call);
    try {
      return await call;
    } finally {
      this.#running.delete(call);
    }
  }

  #withDevices(options: CompileOptions): CompileOptions {
    const { numPartitions = 1 } = options;
    const known = this.devices.map(({ id }) => id);
    const deviceIds = options.deviceIds ?? known.slice(0, numPartitions);
    if (deviceIds.length < numPartitions) {
      throw new UserError(
        "E_DEVICES",
        `${numPartitions} partitions need as many devices; the client has ${known.length}`,
      );
    }
    const unknown = deviceIds.find((id) => !known.includes(id));
    if (unknown !== undefined) {
      throw new UserError("E_DEVICES", `there is no device ${unknown}; the client has ${known.join(", ")}`);
    }
    return { ...options, deviceIds };
  }

  #throwFailure(): void {
    const failure = this.#failure;
    if (failure === undefined) return;
    this.#failure = undefined;
    throw failure.error;
  }
}

function createHandle(api: PjrtApi, devices: number | undefined): Pointer {
  const create = (values: Record<string, bigint>) => {
    const options = encodeNamedValues(values);
    const input = { create_options: options.bytes, num_options: options.count };
    return api.call("Client_Create", input, options.held).client;
  };
  try {
    return create({ cpu_device_count: BigInt(devices ?? 1) });
  } catch (error) {
    // Only CPU plugins know the option.
    const unknownOption = (error as { status?: number }).status === pjrtStatus.invalidArgument;
    if (devices !== undefined || !unknownOption) throw error;
    return create({});
  }
}

function readDevices(api: PjrtApi, client: Pointer): Device[] {
  const { addressable_devices, num_addressable_devices } = api.call("Client_AddressableDevices", { client });
  const handles = viewAt(addressable_devices, 8 * num_addressable_devices);
  return Array.from({ length: num_addressable_devices }, (_, i) => {
    const handle = handles.getBigUint64(8 * i, true);
    const { device_description } = api.call("Device_GetDescription", { device: handle });
    const { id } = api.call("DeviceDescription_Id", { device_description });
    const { device_kind, device_kind_size } = api.call("DeviceDescription_Kind", { device_description });
    return { id, kind: readString(device_kind, device_kind_size), handle };
  });
}

let shared: Client | undefined;
let sharedOptions: ClientOptions = {};

/** Sets the options of the process-wide client. @throws UserError once that client exists, or where a variable of the environment is no choice */
export function configureDefaultClient(options: ClientOptions): void {
  checkEnvironment();
  if (shared !== undefined) {
    throw new UserError(
      "E_CLIENT",
      "the default client exists already; set its devices before the first use of a device",
    );
  }
  sharedOptions = options;
}

/** The process-wide client, made at its first use. */
export function defaultClient(): Client {
  shared ??= new Client(sharedOptions);
  return shared;
}
