/** Typed errors. Every message says what was got, the rule, and the fix. */
import { fileURLToPath } from "node:url";

/** A failure with a stable code; the command line exits with 1 unless it is a `UserError`. */
export class HalfbyteError extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(readable(message), options);
    this.code = code;
    this.name = new.target.name;
  }
}

/** Of a message: enough for a list of mistakes, and not for a name of a megabyte that a file holds. */
const [longestMessage, keptAtEnds] = [4000, 1500];

/** A message quotes names and texts of files, which may be of any length and hold what a terminal takes for commands. */
function readable(message: string): string {
  const short =
    message.length <= longestMessage
      ? message
      : `${message.slice(0, keptAtEnds)} … ${message.length - 2 * keptAtEnds} characters … ${message.slice(-keptAtEnds)}`;
  return short.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is to go
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g,
    (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}

/** The user's mistake: one clear sentence, no stack on the command line, exit code 2. */
export class UserError extends HalfbyteError {}

/** @throws UserError telling every mistake, where there is one; `what` begins the message of several: "settings can't be used" */
export function refuseMistakes(mistakes: readonly UserError[], what: string): void {
  const [first, ...others] = mistakes;
  if (first === undefined) return;
  if (others.length === 0) throw first;
  const list = mistakes.map(({ message }) => `  ${message.replaceAll("\n", "\n  ")}`);
  throw new UserError("E_SETTINGS", `${mistakes.length} ${what}:\n${list.join("\n")}`);
}

/** Shapes or dtypes that do not fit an operation; thrown at trace time, naming the caller's line. */
export class ShapeError extends UserError {
  constructor(message: string) {
    super("E_SHAPE", `${message}${callerSuffix()}`);
  }
}

/** A plugin's PJRT error: `status` is the canonical status code (3 = invalid argument, 8 = resource exhausted, …). */
export class PjrtError extends HalfbyteError {
  readonly status: number;
  constructor(status: number, message: string) {
    super("E_PJRT", message);
    this.status = status;
  }
}

/** Stages whose frames are never the user's line; the others (nn, models, …) are code that calls them. */
const machinery = ["base", "core", "autodiff", "sharding", "lower", "jit"].map((stage) =>
  fileURLToPath(new URL(`../${stage}/`, import.meta.url)),
);

/** " (at file:line:column)" of the user's line; empty where there is none. */
function callerSuffix(): string {
  const place = callerPlace();
  return place === undefined ? "" : ` (at ${place})`;
}

/** "file:line:column" of the first stack frame outside the tracing machinery. */
export function callerPlace(): string | undefined {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 50;
  const stack = new Error().stack?.split("\n").slice(1) ?? [];
  Error.stackTraceLimit = limit;
  const places = stack.flatMap(
    (line) => line.match(/\(?((?:file:\/\/)?\/[^()]+:\d+:\d+)\)?$/)?.[1]?.replace("file://", "") ?? [],
  );
  return places.find((path) => !machinery.some((folder) => path.startsWith(folder)));
}

/** Throws our own bug as an error: an invariant that no input of a user can break. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new HalfbyteError("E_INTERNAL", `internal error: ${message}`);
}
