/** `halfbyte cache`: what the caches of compiled programs and of tokens hold, and a way to empty them. */
import { megabytes } from "../base/byteSize.ts";
import { UserError } from "../base/errors.ts";
import { clearTokens, tokenCache } from "../data/index.ts";
import { clearCompiled, compiledCache } from "../jit/index.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

export const command: Command = {
  help: `Usage: halfbyte cache [clear [compiled|tokens]] [--json]

Shows what is kept so that the same command starts sooner the next time: compiled programs, and the tokens of data sets.
clear removes all of it, or one of the two, with what killed processes left unfinished; what a run is writing stays.

  --json   the same as one JSON object on standard output

HALFBYTE_COMPILE_CACHE=SIZE   the most that programs may take, such as 500MB or 2GB (default)
HALFBYTE_TOKEN_CACHE=SIZE     the most that tokens may take (default 20GB); what a run reads stays in any case
                              of either, those unused for longest go first; off: keep none and use none
HALFBYTE_CACHE=FOLDER         the cache folder (default ~/.cache/halfbyte); they are in its folders compiled and tokens

Example: halfbyte cache
         halfbyte cache clear tokens
`,
  async run(args) {
    const { words, flags } = parseArguments(args, { keys: [], maxWords: 2 });
    const [action, part] = words;
    if (action !== undefined && action !== "clear")
      throw new UserError("E_ARGUMENT", `unknown word "${action}"; did you mean \`halfbyte cache clear\`?`);
    if (part !== undefined && part !== "compiled" && part !== "tokens")
      throw new UserError(
        "E_ARGUMENT",
        `unknown word "${part}"; \`halfbyte cache clear\` takes compiled, tokens or nothing`,
      );
    const json = flags.has("json");
    const lines: string[] = [];
    let result: object;
    if (action === "clear") {
      const compiled = part === "tokens" ? undefined : clearCompiled();
      const tokens = part === "compiled" ? undefined : clearTokens();
      if (compiled)
        lines.push(`removed ${programs(compiled.entries)}, ${megabytes(compiled.bytes)}, from ${compiled.folder}`);
      if (tokens)
        lines.push(
          `removed tokens of ${dataSets(tokens.entries)}, ${megabytes(tokens.bytes)}${unfinishedText(tokens)}, from ${tokens.folder}`,
        );
      result = {
        ...(compiled && { compiled: removed(compiled) }),
        ...(tokens && { tokens: { ...removed(tokens), unfinished: tokens.unfinished } }),
      };
    } else {
      const [compiled, tokens] = [compiledCache(), tokenCache()];
      lines.push(cacheText(compiled), compiled.folder, tokensText(tokens), tokens.folder);
      result = { compiled, tokens };
    }
    process.stdout.write(json ? `${JSON.stringify(result)}\n` : `${lines.join("\n")}\n`);
    return 0;
  },
};

const removed = ({ folder, entries, bytes }: ReturnType<typeof clearCompiled>) => ({
  folder,
  removed: { entries, bytes },
});

const programs = (count: number) => `${count} compiled program${count === 1 ? "" : "s"}`;
const dataSets = (count: number) => `${count} data set${count === 1 ? "" : "s"}`;

/** "3 compiled programs, 4.2 MB of at most 2000 MB" */
export const cacheText = (state: ReturnType<typeof compiledCache>): string =>
  `${programs(state.entries)}, ${roomText(state, "HALFBYTE_COMPILE_CACHE")}`;

const tokensText = (state: ReturnType<typeof tokenCache>): string =>
  `tokens of ${dataSets(state.entries)}, ${roomText(state, "HALFBYTE_TOKEN_CACHE")}${unfinishedText(state)}`;

const unfinishedText = ({
  unfinished: { entries, bytes },
}: Pick<ReturnType<typeof tokenCache>, "unfinished">): string =>
  entries === 0 ? "" : `, and ${entries} unfinished, ${megabytes(bytes)}`;

function roomText({ bytes, limit }: Pick<ReturnType<typeof tokenCache>, "bytes" | "limit">, variable: string): string {
  return `${megabytes(bytes)}${limit === "off" ? `; switched off by ${variable}` : ` of at most ${megabytes(limit)}`}`;
}
