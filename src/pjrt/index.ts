/**
 * The PJRT binding. In: StableHLO text, host arrays. Out: executables, device arrays, host arrays.
 *
 * A new PJRT function: its struct in `layouts.ts`, its slot in `functionTable.ts`, then `api.call(name, fields)`.
 * koffi stays inside `native.ts`.
 *
 * Leaving: nothing needs to be freed at exit. A step or compile in flight holds an ordinary exit until it is done;
 * `exitNow(code)` leaves at once.
 */
export { Client, type ClientOptions, configureDefaultClient, type Device, defaultClient } from "./client.ts";
export { type CompileOptions, encodeCompileOptions, type OptionValue } from "./compileOptions.ts";
export { DeviceArray } from "./deviceArray.ts";
export type { KernelInstructions } from "./environmentChoices.ts";
export { canSerialize, Executable, type ExecuteOptions, type Execution, type MemoryStats } from "./executable.ts";
export { withHloDump } from "./hloDump.ts";
export { exitNow } from "./native.ts";
export { type NativeKernels, nativeKernels } from "./nativeKernels.ts";
export { type OneDnn, probeOneDnn } from "./oneDnn.ts";
export { type MatrixPeak, measureMatrixPeak } from "./peak.ts";
export {
  cacheFolder,
  defaultPlugin,
  type InstallRecord,
  loadPlugin,
  locatePlugin,
  type Plugin,
  type PluginLocation,
  pluginIdentity,
} from "./plugin.ts";
export { isOutOfMemory, pjrtStatus } from "./status.ts";
export { checkMeshOf, put, putReplicated, putSharded } from "./transfers.ts";
