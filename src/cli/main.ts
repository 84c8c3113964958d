/** The command line's entry: finds the command, runs it, turns an error into one message and an exit code. */
import { HalfbyteError, UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { type Command, commands } from "./command.ts";
import { overview, overviewAsJson, version } from "./help.ts";

async function run(args: readonly string[]): Promise<number> {
  const [first, ...rest] = args[0] === "--json" ? [...args.slice(1), "--json"] : args;
  if (first === undefined || first === "--help" || first === "-h" || (first === "help" && rest.length === 0)) {
    process.stdout.write(rest.includes("--json") ? `${overviewAsJson()}\n` : overview());
    return 0;
  }
  if (first === "--version" || first === "-V") {
    process.stdout.write(rest.includes("--json") ? `${JSON.stringify({ version: version() })}\n` : `${version()}\n`);
    return 0;
  }
  const name = first === "help" ? (rest[0] ?? "") : first;
  const { command, args: own } = await atTopic(await findCommand(name).load(), first === "help" ? rest.slice(1) : rest);
  if (first === "help" || own.includes("--help") || own.includes("-h")) {
    process.stdout.write(command.help);
    return 0;
  }
  return command.run(own);
}

/** The command's topic where the first word names one, and the arguments after it. */
async function atTopic(command: Command, args: readonly string[]) {
  const [topic = "", ...after] = args;
  const { topics = {} } = command;
  return Object.hasOwn(topics, topic) ? { command: await topics[topic]!(), args: after } : { command, args };
}

function findCommand(name: string) {
  const entry = commands.find((candidate) => candidate.name === name);
  if (entry !== undefined) return entry;
  const names = [...commands.map((candidate) => candidate.name), "--help", "--version", "--json"];
  const near = nearest(name, names);
  throw new UserError(
    "E_COMMAND",
    near === undefined
      ? `unknown command "${name}"; \`halfbyte --help\` lists the known ones`
      : `unknown command "${name}"; did you mean "${near}"?`,
  );
}

/** Says what went wrong, as one message (or as JSON where that was asked for), and gives the exit code. */
function report(error: unknown, asJson: boolean): number {
  const message = error instanceof Error ? error.message : String(error);
  if (asJson) {
    const code = error instanceof HalfbyteError ? error.code : "E_FAILURE";
    process.stdout.write(`${JSON.stringify({ error: { code, message } })}\n`);
  } else {
    process.stderr.write(`halfbyte: ${message}\n`);
  }
  if (process.env.HALFBYTE_DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  return error instanceof UserError ? 2 : 1;
}

if (process.env.HALFBYTE_DEBUG) process.setSourceMapsEnabled(true);
// A reader that closes early, such as `| head`, is no failure, and no reason to end a training run.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") process.exit(1);
  });
}

const args = process.argv.slice(2);
const [major = 0] = process.versions.node.split(".").map(Number);
if (major < 20) {
  process.stderr.write(
    `halfbyte: Node.js 20 or newer is needed, but this is ${process.versions.node}: install a newer one\n`,
  );
  process.exit(1);
}
// Not a natural end: a handle that a command left open must not keep the process.
process.exit(await run(args).catch((error: unknown) => report(error, args.includes("--json"))));
