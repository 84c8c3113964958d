/** `halfbyte setup`: the set-up script, which must also run where nothing of this is built yet (the launcher calls it directly). */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Command } from "./command.ts";

const script = fileURLToPath(new URL("../../scripts/setup.mjs", import.meta.url));

export const command: Command = {
  /** The script's own words, so that there is one text. */
  get help() {
    return spawnSync(process.execPath, [script, "--help"], { encoding: "utf8" }).stdout;
  },
  async run(args) {
    const { status, signal } = spawnSync(process.execPath, [script, ...args], { stdio: "inherit" });
    return status ?? (signal === "SIGINT" ? 130 : 143);
  },
};
