/** What a command is, and the table of all of them. To add one: a module that exports `command`, and a row here. */

export interface Command {
  /** What `halfbyte NAME --help` prints: usage, settings, one line for `--json`, and an example. */
  readonly help: string;
  /** Commands of its own by the word after its name, such as numerics of `halfbyte report numerics`. */
  readonly topics?: Readonly<Record<string, () => Promise<Command>>>;
  /** Runs it with the arguments after its name; resolves with the exit code. @throws UserError for the user's mistakes. */
  run(args: readonly string[]): Promise<number>;
}

export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  /** Imports the command's module: only the one that is asked for is ever loaded. */
  load(): Promise<Command>;
}

export const commands: readonly CommandEntry[] = [
  {
    name: "setup",
    summary: "install what is missing: packages, build, the PJRT plugin",
    load: async () => (await import("./setup.ts")).command,
  },
  {
    name: "doctor",
    summary: "show what this machine offers, how fast it is, and what to fix",
    load: async () => (await import("./doctor.ts")).command,
  },
  {
    name: "cache",
    summary: "show or clear the compiled programs kept on disk",
    load: async () => (await import("./cache.ts")).command,
  },
  {
    name: "demo",
    summary: "train one small Llama in BF16 and in NVFP4 on real text, and compare",
    load: async () => (await import("./demo.ts")).command,
  },
  {
    name: "train",
    summary: "train a model on text, or go on with a run",
    load: async () => (await import("./train.ts")).command,
  },
  {
    name: "evaluate",
    summary: "tell a model's loss and perplexity on text",
    load: async () => (await import("./evaluate.ts")).command,
  },
  {
    name: "watch",
    summary: "show a run while it goes, from another terminal",
    load: async () => (await import("./watch.ts")).command,
  },
  {
    name: "checkpoints",
    summary: "list a run's checkpoints, and verify each to its last byte",
    load: async () => (await import("./checkpoints.ts")).command,
  },
  {
    name: "tokenizer",
    summary: "learn a vocabulary from text; show what a tokenizer makes of a text or a conversation",
    load: async () => (await import("./tokenizer.ts")).command,
  },
  {
    name: "convert",
    summary: "turn a model into a Hugging Face folder, from GGUF or a run, or into weights for a run",
    load: async () => (await import("./convert.ts")).command,
  },
  {
    name: "quantize",
    summary: "turn a model's weights into NVFP4, MXFP4, MXFP8 or FP8 for inference, or back",
    load: async () => (await import("./quantize.ts")).command,
  },
  {
    name: "inspect",
    summary: "show a training step at each stage, with FLOPs, bytes and formats",
    load: async () => (await import("./inspect.ts")).command,
  },
  {
    name: "report",
    summary: "show what low precision does to a run",
    load: async () => (await import("./report.ts")).command,
  },
  {
    name: "explain",
    summary: "tell what keys, presets, models and recipes mean",
    load: async () => (await import("./explain.ts")).command,
  },
  {
    name: "config",
    summary: "show settings resolved, or what two sets of them differ in",
    load: async () => (await import("./config.ts")).command,
  },
];
