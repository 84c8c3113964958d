/** `halfbyte cache`: what the cache of compiled programs holds, and a way to empty it. */
import { megabytes } from "../base/byteSize.ts";
import { UserError } from "../base/errors.ts";
import { clearCompiled, compiledCache } from "../jit/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

export const command: Command = {
  help: `Usage: halfbyte cache [clear] [--json]

Shows the compiled programs that are kept so that the same command starts sooner the next time; clear removes them all.

  --json   the same as one JSON object on standard output

HALFBYTE_COMPILE_CACHE=SIZE   the most they may take, such as 500MB or 2GB (default); those unused for longest go first
HALFBYTE_COMPILE_CACHE=off    keep none and use none
HALFBYTE_CACHE=FOLDER         the cache folder (default ~/.cache/halfbyte); they are in its folder compiled

Example: halfbyte cache
         halfbyte cache clear
`,
  async run(args) {
    const { words, flags } = parseArguments(args, { keys: [], maxWords: 1 });
    const [action] = words;
    if (action !== undefined && action !== "clear")
      throw new UserError("E_ARGUMENT", `unknown word "${action}"; did you mean \`halfbyte cache clear\`?`);
    const json = flags.has("json");
    if (action === "clear") {
      const { folder, entries, bytes } = clearCompiled();
      const text = `removed ${programs(entries)}, ${megabytes(bytes)}, from ${folder}`;
      process.stdout.write(json ? `${JSON.stringify({ folder, removed: { entries, bytes } })}\n` : `${text}\n`);
      return 0;
    }
    const state = compiledCache();
    process.stdout.write(json ? `${JSON.stringify(state)}\n` : `${cacheText(state)}\n${state.folder}\n`);
    return 0;
  },
};

const programs = (count: number) => `${count} compiled program${count === 1 ? "" : "s"}`;

/** "3 compiled programs, 4.2 MB of at most 2000 MB" */
export function cacheText({ entries, bytes, limit }: ReturnType<typeof compiledCache>): string {
  const most = limit === "off" ? "; switched off by HALFBYTE_COMPILE_CACHE" : ` of at most ${megabytes(limit)}`;
  return `${programs(entries)}, ${megabytes(bytes)}${most}`;
}
