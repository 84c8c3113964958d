/** Settings of the tokenizer commands. */
import { readFileSync } from "node:fs";
import { UserError } from "../base/errors.ts";
import { reasonOf } from "../base/systemReason.ts";
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

/** `text=…`, which may be empty, or standard input for `text=-`. @throws UserError where it is missing */
export function givenText(settings: Given): string {
  const text = settings.text ?? required(settings, "text", "encode");
  if (text !== "-") return text;
  try {
    return readFileSync(0, "utf8");
  } catch (error) {
    throw new UserError("E_KEY", `text=-: standard input can't be read (${reasonOf(error)})`);
  }
}
