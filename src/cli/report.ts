/** `halfbyte report`: how runs go, and what low precision is and does in them. A further subject is a command in `topics`. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import type { Command } from "./command.ts";

const topics = {
  losses: async () => (await import("./reportLosses.ts")).command,
  precision: async () => (await import("./reportPrecision.ts")).command,
  numerics: async () => (await import("./reportNumerics.ts")).command,
} as const satisfies Command["topics"];

export const command: Command = {
  help: `Usage: halfbyte report TOPIC … [--json]

  losses     the losses of runs over their steps, of each source of a mixture too
  precision  what each GEMM of a run computes in, and why
  numerics   what quantization did to the tensors of a run that was measured

  halfbyte report TOPIC --help   its settings, with an example
  --json                         the same as JSON on standard output

Example: halfbyte report numerics runs/books-nvfp4
`,
  topics,
  async run([topic = ""]) {
    const names = Object.keys(topics);
    const near = nearest(topic, names);
    const said = topic === "" ? "no topic is given" : `unknown topic "${topic}"`;
    throw new UserError(
      "E_ARGUMENT",
      `${said}; ${near === undefined ? `known are ${names.join(", ")}` : `did you mean ${near}?`}`,
    );
  },
};
