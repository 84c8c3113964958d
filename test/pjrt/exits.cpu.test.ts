/** Every way a process can end, at every stage of the binding: the right exit code, no crash, and no wait where none is due. */
import { describe, expect, it } from "vitest";
import { type ChildOptions, installedPlugin, runChild } from "./childProcess.ts";

interface Ending {
  readonly name: string;
  readonly signal?: NodeJS.Signals;
  readonly code: number | null;
  readonly dies?: NodeJS.Signals;
}

const normal = { name: "normal", code: 0 };
const exit3 = { name: "exit3", code: 3 };
const thrown = { name: "throw", code: 1 };
const rejected = { name: "reject", code: 1 };
const interrupted: Ending = { name: "signal", signal: "SIGINT", code: null, dies: "SIGINT" };
const terminated: Ending = { name: "signal", signal: "SIGTERM", code: null, dies: "SIGTERM" };
const handledInterrupt: Ending = { name: "handled", signal: "SIGINT", code: 130 };
const handledTermination: Ending = { name: "handled", signal: "SIGTERM", code: 143 };
const all = [normal, thrown, rejected, exit3, interrupted, terminated, handledInterrupt];

const matrix: Record<string, Record<string, readonly Ending[]>> = {
  "lammps-jax-pjrt-cpu-0.11.2/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so": {
    loaded: all,
    client: [...all, { name: "destroy", code: 0 }],
    ran: [...all, handledTermination, { name: "destroy", code: 0 }],
    inFlight: [normal, thrown, rejected, exit3, { name: "destroy", code: 0 }],
    endless: [
      interrupted,
      terminated,
      { name: "exitNow", code: 5 },
      { name: "handledNow", signal: "SIGINT", code: 130 },
      { name: "handledNow", signal: "SIGTERM", code: 143 },
    ],
  },
  "fastatomstruct-xla-cpu-2026.6.23/fastatomstruct_xla_cpu/libpjrt_cpu.so": {
    client: [normal, thrown, exit3],
    ran: [normal, rejected, exit3, handledInterrupt, { name: "destroy", code: 0 }],
    inFlight: [normal, exit3],
    endless: [interrupted, { name: "handledNow", signal: "SIGTERM", code: 143 }],
  },
};

for (const [file, stages] of Object.entries(matrix)) {
  const [folder = "", ...rest] = file.split("/");
  const path = installedPlugin(folder, rest.join("/"));
  describe.skipIf(path === undefined)(path === undefined ? `${folder} (not in the cache)` : folder, () => {
    for (const [stage, endings] of Object.entries(stages)) {
      for (const { name, signal, code, dies } of endings) {
        it.concurrent(`${stage}, ${name}${signal ? ` by ${signal}` : ""}: ${dies ?? `code ${code}`}`, async () => {
          const options: ChildOptions = {
            args: [path!, stage, name],
            timeoutSeconds: 40,
            ...(signal ? { signal } : {}),
          };
          const result = await runChild("exits", options);
          const said = JSON.stringify(result);
          expect(result.code, said).toBe(code);
          expect(result.signal, said).toBe(dies ?? null);
          if (code === 0) expect(result.stderr).toBe("");
        });
      }
    }
  });
}
