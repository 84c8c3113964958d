/** The texts of `halfbyte --help` and `--version`. */
import { readFileSync } from "node:fs";
import { commands } from "./command.ts";

/** The package's version, from its package.json (two folders up from here in src and in dist alike). */
export function version(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

export function overview(): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const rows = commands.map(({ name, summary }) => `  ${name.padEnd(width)}   ${summary}`);
  return `Halfbyte ${version()}: trains large language models in low precision, from TypeScript, on XLA.

Usage: halfbyte COMMAND [key=value …] [--json]

${rows.join("\n")}

  halfbyte COMMAND --help   the command's settings, with an example
  halfbyte --version

--json gives the result, or the error, as JSON on standard output.
Exit codes: 0 done, 1 failure, 2 a mistake in what was asked for, 130 or 143 interrupted.
Environment: HALFBYTE_CACHE (default ~/.cache/halfbyte), HALFBYTE_PJRT_PLUGIN (path of another PJRT plugin),
             HALFBYTE_NO_TUNABLES=1 (leave the allocator as it is), HALFBYTE_DEBUG=1 (stack traces).

Example: halfbyte doctor
`;
}

export function overviewAsJson(): string {
  return JSON.stringify({ version: version(), commands: commands.map(({ name, summary }) => ({ name, summary })) });
}
