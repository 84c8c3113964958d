/** Reads a command line of `key=value` settings and `--flag` switches. Values stay text; the config gives them their types. */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { meantName } from "../config/index.ts";

export interface ArgumentRules {
  /** Switches besides `json` and `help`, without their dashes. */
  readonly flags?: readonly string[];
  /** The settings' names where the command knows them all (none: it takes no settings); else the config checks them later. */
  readonly keys?: readonly string[];
  /** Settings of the command's own beside those of the configuration. */
  readonly ownKeys?: readonly string[];
  /** How many plain words may be given (default 0). */
  readonly maxWords?: number;
}

export interface Arguments {
  readonly settings: Readonly<Record<string, string>>;
  readonly flags: ReadonlySet<string>;
  readonly words: readonly string[];
}

const SETTING = /^([A-Za-z_][\w.-]*)=(.*)$/s;

/** @throws UserError (E_OPTION, E_KEY, E_ARGUMENT) naming the nearest thing that exists. */
export function parseArguments(args: readonly string[], rules: ArgumentRules = {}): Arguments {
  const settings: Record<string, string> = Object.create(null);
  const flags = new Set<string>();
  const words: string[] = [];
  for (const [index, arg] of args.entries()) {
    const [, key, value] = arg.match(SETTING) ?? [];
    if (arg.startsWith("-")) flags.add(checkFlag(arg, args[index + 1], rules));
    else if (key === undefined || value === undefined) words.push(checkWord(arg, words.length, rules));
    else if (key in settings)
      throw new UserError("E_KEY", `${key} is set twice (${key}=${settings[key]} and ${arg}): keep one`);
    else settings[checkKey(key, arg, rules)] = value;
  }
  return { settings, flags, words };
}

function checkFlag(arg: string, next: string | undefined, rules: ArgumentRules): string {
  const known = [...(rules.flags ?? []), "json", "help"];
  const name = arg === "-h" ? "help" : arg.replace(/^--/, "");
  if (known.includes(name)) return name;
  const [key = "", written] = name.split(/=(.*)/s);
  const near = nearest(key, known);
  const value = written ?? (next === undefined || /^-\D|=/.test(next) ? "VALUE" : next);
  const fix = near !== undefined ? `did you mean --${near}?` : settingMeant(key.replace(/^-+/, ""), value, rules);
  throw new UserError("E_OPTION", `unknown option "${arg}"; ${fix}`);
}

/** What to write for the switch `--key value`, which is none: a setting where there is one of that meaning. */
function settingMeant(key: string, value: string, { flags = [], keys, ownKeys = [] }: ArgumentRules): string {
  const plain = key.replaceAll("-", "_");
  const own = keys ?? ownKeys;
  const meant = own.includes(plain) ? plain : keys === undefined ? meantName(plain) : nearest(plain, own);
  if (meant === plain) return `settings are written without dashes: ${plain}=${value}`;
  if (meant !== undefined) return `settings are written without dashes; did you mean ${meant}=${value}?`;
  if (keys === undefined) return "settings are written without dashes, and `halfbyte explain` lists them";
  return `known are ${[...flags, "json", "help"].map((flag) => `--${flag}`).join(", ")}`;
}

function checkWord(arg: string, count: number, { maxWords = 0 }: ArgumentRules): string {
  if (count < maxWords) return arg;
  throw new UserError("E_ARGUMENT", `unexpected argument "${arg}": settings are written key=value`);
}

function checkKey(key: string, arg: string, { keys }: ArgumentRules): string {
  if (keys === undefined || keys.includes(key)) return key;
  if (keys.length === 0) {
    throw new UserError("E_ARGUMENT", `unexpected argument "${arg}": this command takes no settings`);
  }
  const near = nearest(key, keys);
  throw new UserError(
    "E_KEY",
    near === undefined
      ? `unknown key "${key}"; known are ${keys.join(", ")}`
      : `unknown key "${key}"; did you mean "${near}"?`,
  );
}
