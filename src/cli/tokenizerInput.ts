/** Settings of the tokenizer commands. */
import { readFileSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { reasonOf } from "../checkpoint/index.ts";
import { parseValue } from "../config/index.ts";

type Given = Readonly<Record<string, string>>;

/** @throws UserError where it is missing; `verb` has the help with an example */
export function required(settings: Given, key: string, verb: string): string {
  const value = settings[key];
  if (value) return value;
  throw new UserError("E_KEY", `${key}=… is missing; \`halfbyte tokenizer ${verb} --help\` shows an example`);
}

export function isOn(settings: Given, key: string): boolean {
  const text = settings[key];
  return text === undefined ? false : (parseValue(key, text, "boolean") as boolean);
}

/** `text=…`, or standard input where something else than a person writes to it. */
export function givenText(settings: Given): string {
  if (settings.text !== undefined) return settings.text;
  if (process.stdin.isTTY) required(settings, "text", "encode");
  try {
    return readFileSync(0, "utf8");
  } catch (error) {
    throw new UserError("E_KEY", `text=… is missing, and standard input can't be read (${reasonOf(error)})`);
  }
}
