/** What is fuzzed: a format, valid inputs of it, and everything that is read of one. */
import type { Draws } from "./random.ts";

/** Files by their paths below a folder. */
export type Files = Readonly<Record<string, Uint8Array>>;

export interface FuzzFormat {
  readonly name: string;
  /** Valid inputs. @param folder of its own, for what a writer needs */
  seeds(folder: string): Promise<readonly Files[]>;
  /** Paths of the files that are mutated, of each seed those that it has. */
  readonly mutated: RegExp;
  /** Of the rounds of other formats, where an input takes long. Default: 1. */
  readonly share?: number;
  /** Another way to mutate a file; undefined leaves it to bytes or JSON. */
  mutate?(path: string, bytes: Uint8Array, draws: Draws): Uint8Array | undefined;
  /** Reads all there is to be read. @throws Error where what was read is not right; what readers throw must be typed */
  read(folder: string): Promise<void>;
}
