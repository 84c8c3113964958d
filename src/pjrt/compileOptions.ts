/** Compile options as the bytes of a CompileOptionsProto. */
import { UserError } from "../base/errors.ts";

/** An XLA debug option's value. A plain number is an int where it is whole; `{ float }` sends a whole number as a float. */
export type OptionValue = boolean | string | number | bigint | { readonly float: number };

/** What XLA is told beside the program. */
export interface CompileOptions {
  /** Pieces the program is partitioned into, one per device (default 1). */
  readonly numPartitions?: number;
  /** Device ids, one per partition (default: the client's first devices). */
  readonly deviceIds?: readonly number[];
  /** Partition by Shardy (sdy) annotations (default true where there are several partitions). */
  readonly useShardy?: boolean;
  /** XLA options by name, such as `xla_dump_to`. */
  readonly envOverrides?: Readonly<Record<string, OptionValue>>;
}

/**
 * Off on every compile: the default lets XLA skip BF16 roundings on CPU and delete whole conversion round trips on GPU,
 * which would silently undo emulated precision.
 */
const excessPrecision = "xla_allow_excess_precision";

/** @throws UserError where numbers don't fit together or an option may not be set. */
export function encodeCompileOptions(options: CompileOptions = {}): Uint8Array {
  const { numPartitions = 1, deviceIds, envOverrides = {} } = options;
  const useShardy = options.useShardy ?? numPartitions > 1;
  if (!Number.isInteger(numPartitions) || numPartitions < 1) {
    throw new UserError(
      "E_COMPILE_OPTIONS",
      `numPartitions must be a whole number of at least 1; got ${numPartitions}`,
    );
  }
  if (deviceIds !== undefined && deviceIds.length !== numPartitions) {
    throw new UserError(
      "E_COMPILE_OPTIONS",
      `${numPartitions} partitions need as many device ids; got ${deviceIds.length}`,
    );
  }
  if (Object.hasOwn(envOverrides, excessPrecision)) {
    throw new UserError("E_COMPILE_OPTIONS", `${excessPrecision} is off on every compile and can't be set`);
  }
  // ExecutableBuildOptionsProto: 4 num_replicas, 5 num_partitions, 6 use_spmd_partitioning, 9 device_assignment,
  // 19 use_shardy_partitioner. Never field 3 (debug_options): a partial one replaces every default with zero.
  const build = [varintField(4, 1), varintField(5, numPartitions)];
  if (numPartitions > 1) build.push(varintField(6, 1));
  if (deviceIds !== undefined) {
    // DeviceAssignmentProto: 1 replica_count, 2 computation_count, 3 per partition { 1 device ids of its replicas }.
    const perPartition = deviceIds.map((id) => bytesField(3, bytesField(1, varint(id))));
    build.push(bytesField(9, concat([varintField(1, 1), varintField(2, numPartitions), ...perPartition])));
  }
  if (useShardy) build.push(varintField(19, 1));
  // CompileOptionsProto: 3 executable_build_options, 7 map of option overrides { 1 key, 2 value }.
  const overrides = Object.entries({ ...envOverrides, [excessPrecision]: false }).map(([key, value]) =>
    bytesField(7, concat([bytesField(1, Buffer.from(key)), bytesField(2, encodeOption(key, value))])),
  );
  return concat([bytesField(3, concat(build)), ...overrides]);
}

/** OptionOverrideProto: 1 string, 2 bool, 3 int64, 4 double. */
function encodeOption(name: string, value: OptionValue): Uint8Array {
  if (typeof value === "boolean") return varintField(2, value ? 1 : 0);
  if (typeof value === "string") return bytesField(1, Buffer.from(value));
  if (typeof value === "bigint" || Number.isSafeInteger(value)) return varintField(3, value as number | bigint);
  const float = typeof value === "object" ? value.float : (value as number);
  if (!Number.isFinite(float)) throw new UserError("E_COMPILE_OPTIONS", `option ${name} must be finite; got ${float}`);
  const bytes = new Uint8Array(9);
  bytes[0] = (4 << 3) | 1;
  new DataView(bytes.buffer).setFloat64(1, float, true);
  return bytes;
}

function varint(value: number | bigint): Uint8Array {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

function varintField(field: number, value: number | bigint): Uint8Array {
  return concat([varint(field << 3), varint(value)]);
}

function bytesField(field: number, bytes: Uint8Array): Uint8Array {
  return concat([varint((field << 3) | 2), varint(bytes.length), bytes]);
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}
