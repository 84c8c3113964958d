/** Compile options that the meaning of the operations needs. */
import type { Client, CompileOptions } from "../pjrt/index.ts";

/** On a CPU, XLA's default takes the maximum or minimum of a number and NaN for either; here NaN wins, as elsewhere. */
export function compileOptionsFor(client: Client, options: CompileOptions): CompileOptions {
  if (client.platformName !== "cpu") return options;
  return { ...options, envOverrides: { ...options.envOverrides, xla_cpu_enable_fast_min_max: false } };
}
