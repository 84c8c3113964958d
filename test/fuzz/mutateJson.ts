/**
 * Mutations of JSON by its structure: values of other types, numbers beyond all use, deep nesting, long strings, and names that
 * stand twice or that JavaScript's objects take for something else.
 */
import type { Draws } from "./random.ts";

/** A value by its text, for what JSON.stringify would not write. */
class RawText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** An object that keeps names that stand twice. */
class Entries {
  readonly entries: [string, unknown][];
  constructor(entries: [string, unknown][]) {
    this.entries = entries;
  }
}

const depth = 100_000;
const numbers = [
  ...["0", "-1", "1", "0.5", "-0", "1e999", "-1e999", "1e-999", "2147483647", "2147483648", "4294967295", "4294967296"],
  ...["9007199254740991", "9007199254740992", "9223372036854775807", "18446744073709551615", "1e30", "3e8", "1048577"],
];
const strange = [
  ...[
    "null",
    "true",
    "false",
    '""',
    "[]",
    "{}",
    "[null]",
    "[[]]",
    '[{"__proto__":null}]',
    '{"__proto__":{"type":"BPE"}}',
  ],
  ...['{"constructor":{"prototype":{"x":1}}}', '"__proto__"', '"constructor"', '"toString"', '"\\ud800"', '"\\u0000"'],
  ...['"../../x"', '"/"', '"."', '"\\u001b[31m"', '"a\\nb"', '{"toString":1,"valueOf":2}', '{"length":4294967295}'],
];
const names = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "",
  "length",
  "0",
  "then",
  "toJSON",
];

function hostileValue(draws: Draws): RawText {
  const kind = draws.int(8);
  if (kind < 3) return new RawText(draws.pick(numbers));
  if (kind < 6) return new RawText(draws.pick(strange));
  if (kind === 6) return new RawText(JSON.stringify(draws.pick(["x", "é", "\\", "<|x|>"]).repeat(1 << draws.int(17))));
  const [open, middle, close] = draws.pick([
    ["[", "", "]"],
    ['{"a":', "1", "}"],
    ['{"type":"Sequence","normalizers":[', "", "]}"],
    ['{"type":"Sequence","pretokenizers":[', "", "]}"],
    ['{"type":"Sequence","decoders":[', "", "]}"],
    ['{"type":"Sequence","processors":[', "", "]}"],
  ] as const);
  const times = draws.pick([10, 3000, depth]);
  return new RawText(open.repeat(times) + middle + close.repeat(times));
}

/** The tree with objects as lists of entries. */
function entriesOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(entriesOf);
  if (typeof value !== "object" || value === null) return value;
  return new Entries(Object.entries(value).map(([name, inner]) => [name, entriesOf(inner)]));
}

/** A place of the tree that can be given another value. */
interface Slot {
  readonly get: () => unknown;
  readonly set: (value: unknown) => void;
  /** The list or object it lies in. */
  readonly home?: unknown[] | Entries;
  readonly index: number;
}

/** A place by a walk down from the root, so that few large lists don't hide the rest. */
function slotIn(root: { value: unknown }, draws: Draws): Slot {
  let slot: Slot = { get: () => root.value, set: (value) => (root.value = value), index: 0 };
  for (;;) {
    const home = slot.get();
    const size = home instanceof Entries ? home.entries.length : Array.isArray(home) ? home.length : 0;
    if (size === 0 || (slot.home === undefined ? draws.chance(0.02) : draws.chance(0.25))) return slot;
    const index = draws.int(size);
    if (home instanceof Entries) {
      const entry = home.entries[index]!;
      slot = { get: () => entry[1], set: (value) => (entry[1] = value), home, index };
    } else {
      const list = home as unknown[];
      slot = { get: () => list[index], set: (value) => (list[index] = value), home: list, index };
    }
  }
}

function mutateOnce(root: { value: unknown }, draws: Draws): void {
  const slot = slotIn(root, draws);
  const { home, index } = slot;
  switch (draws.int(9)) {
    case 0: // gone
      if (home instanceof Entries) home.entries.splice(index, 1);
      else home?.splice(index, 1);
      return;
    case 1: // twice, the second time perhaps with another value
      if (home instanceof Entries) home.entries.push([home.entries[index]![0], otherValue(slot, root, draws)]);
      else home?.push(slot.get());
      return;
    case 2: // by another name
      if (home instanceof Entries) home.entries[index]![0] = draws.pick(names);
      return;
    case 3: // one more
      if (home instanceof Entries) home.entries.push([draws.pick(names), hostileValue(draws)]);
      else home?.push(hostileValue(draws));
      return;
    case 4:
    case 5:
      slot.set(otherValue(slot, root, draws));
      return;
    default:
      slot.set(hostileValue(draws));
  }
}

/** Near the former value, from elsewhere in the tree, or hostile. */
function otherValue(slot: Slot, root: { value: unknown }, draws: Draws): unknown {
  const value = slot.get();
  if (typeof value === "number" && draws.chance(0.5)) return value + draws.pick([-1, 1, 0.5, value, 256, -2 * value]);
  if (typeof value === "string" && draws.chance(0.5)) {
    const at = draws.int(value.length + 1);
    return (
      value.slice(0, at) +
      draws.pick(["", "\\", "(", ")", "*", "+", "[", "{", "\u0000", " ", "9"]) +
      value.slice(at + 1)
    );
  }
  // A copy: moving a part into itself would close a circle.
  if (draws.chance(0.4)) return new RawText(write(slotIn(root, draws).get()));
  return hostileValue(draws);
}

function write(value: unknown): string {
  if (value instanceof RawText) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (!(value instanceof Entries)) return JSON.stringify(value) ?? "null";
  return `{${value.entries.map(([name, inner]) => `${JSON.stringify(name)}:${write(inner)}`).join(",")}}`;
}

/** Valid JSON (but for what no JSON is) from valid JSON, with one to three mutations. */
export function mutateJson(text: string, draws: Draws): string {
  const root = { value: entriesOf(JSON.parse(text)) };
  for (let times = 1 + draws.int(3); times > 0; times--) mutateOnce(root, draws);
  return write(root.value);
}
