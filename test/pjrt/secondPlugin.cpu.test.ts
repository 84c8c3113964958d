/** The same checks, bundled and in a process of their own, on both tested plugins where they are installed. */
import { describe, expect, it } from "vitest";
import { type ChildResult, installedPlugin, runChild } from "./childProcess.ts";
import { scenarios } from "./scenarios.ts";

const plugins = {
  "lammps-jax-pjrt-cpu-0.11.2": "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
  "fastatomstruct-xla-cpu-2026.6.23": "fastatomstruct_xla_cpu/libpjrt_cpu.so",
};

for (const [folder, library] of Object.entries(plugins)) {
  const path = installedPlugin(folder, library);
  // Skipped where it is not in the cache: only the continuous-integration run installs the second one.
  describe.skipIf(path === undefined)(path === undefined ? `${folder} (not in the cache)` : folder, () => {
    let child: Promise<ChildResult> | undefined;
    const run = () => {
      child ??= runChild("scenarios", { args: [path!], timeoutSeconds: 100 });
      return child;
    };

    for (const { name } of scenarios) {
      it(name, async () => {
        const { stdout, stderr } = await run();
        const line = stdout.split("\n").find((text) => text.includes(JSON.stringify(name)));
        expect(line, `no result; the process wrote: ${stderr.slice(-2000)}`).toBeDefined();
        expect((JSON.parse(line!) as { failure?: string }).failure).toBeUndefined();
      });
    }

    it("ends by itself with code 0 and says nothing on the way", async () => {
      const { code, stderr } = await run();
      expect(stderr.replace(/.*HalfbyteLeakWarning.*\n.*--trace-warnings.*\n/, "")).toBe("");
      expect(code).toBe(0);
    });
  });
}
