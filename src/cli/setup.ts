/** `halfbyte setup`: the set-up script, which must also run where nothing of this is built yet (the launcher calls it directly). */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Command } from "./command.ts";

const script = fileURLToPath(new URL("../../scripts/setup.mjs", import.meta.url));

export const command: Command = {
  help: `Usage: halfbyte setup [--demo] [--second-plugin] [--json]

Fetches the PJRT CPU plugin into the cache and, in a clone, installs the npm packages and builds. Does only what is missing.

  --demo            also the demo's text (7 MB)
  --second-plugin   also a second PJRT CPU plugin, which some tests use (63 MB)
  --json            the result as one JSON object on standard output

Example: halfbyte setup --demo
`,
  async run(args) {
    const { status, signal } = spawnSync(process.execPath, [script, ...args], { stdio: "inherit" });
    return status ?? (signal === "SIGINT" ? 130 : 143);
  },
};
