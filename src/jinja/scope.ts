/** What a running template has at hand: names, what it has written, `loop`, and the functions that Jinja gives. */
import type { Node } from "./nodes.ts";
import { bounded, namespace } from "./operators.ts";
import { isEqual } from "./order.ts";
import { described } from "./print.ts";
import {
  type Callable,
  isDict,
  type List,
  Namespace,
  present,
  type Spend,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";

/** Of range(), as in the sandbox. */
const longestRange = 100_000;
export interface Scope {
  readonly values: Map<string, Value>;
  readonly outer?: Scope;
}
export interface Run {
  /** What has been written. */
  text: string;
  readonly spend: Spend;
}
export type Leap = "break" | "continue" | undefined;

export const within = (outer: Scope): Scope => ({ values: new Map(), outer });

export function lookUp(scope: Scope, name: string): Value {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
    const found = at.values.get(name);
    if (found !== undefined) return found;
  }
  return new Undefined(`"${name}"`);
}

export function write(run: Run, text: string): void {
  run.text = bounded(run.text + text);
}

/** What the work writes, kept out of the text. */
export function captured(run: Run, work: () => unknown): string {
  const before = run.text;
  run.text = "";
  work();
  const { text } = run;
  run.text = before;
  return text;
}

const namesLoop = new WeakMap<readonly Node[], boolean>();
/** Whether a body asks for `loop`. */
export function usesLoop(body: readonly Node[]): boolean {
  const known = namesLoop.get(body) ?? mentions(body, "loop");
  namesLoop.set(body, known);
  return known;
}

/** `loop` in each round. */
export function loopFacts(items: List, outer: Value, run: Run): (round: number) => Namespace {
  const depth = outer instanceof Namespace ? Number(outer.fields.get("depth") ?? 0) + 1 : 1;
  let last: Value | undefined;
  const changed: Callable = ({ args }) => {
    const before = last;
    last = Tuple.from(args);
    return before === undefined || !isEqual(before, last, run.spend);
  };
  return (i) => {
    run.spend(10);
    const cycle: Callable = ({ args }) => present(args[i % args.length], "an item of an empty cycle");
    const facts: Readonly<Record<string, Value>> = {
      ...{ index: i + 1, index0: i, revindex: items.length - i, revindex0: items.length - i - 1 },
      ...{ first: i === 0, last: i === items.length - 1, length: items.length, depth, depth0: depth - 1 },
      previtem: present(items[i - 1], "the item before the first"),
      nextitem: present(items[i + 1], "the item behind the last"),
      ...{ cycle, changed },
    };
    return new Namespace(new Map(Object.entries(facts)));
  };
}

export function mentions(part: unknown, name: string): boolean {
  if (part instanceof Map) return [...part].some(([key, value]) => mentions(key, name) || mentions(value, name));
  if (Array.isArray(part)) return part.some((one) => mentions(one, name));
  if (typeof part !== "object" || part === null) return false;
  const node = part as { readonly type?: unknown; readonly value?: unknown };
  return (node.type === "Identifier" && node.value === name) || mentions(Object.values(part), name);
}

export const functions: Readonly<Record<string, Callable>> = {
  namespace,
  dict: ({ args: [from], named }) => new Map([...(from && isDict(from) ? from : []), ...named]),
  range({ args }) {
    const numbers = args.map((value) => (typeof value === "number" ? value : refuse(`range(${described(value)})`)));
    if (numbers.length === 0 || numbers.length > 3) refuse(`range() of ${numbers.length} numbers`);
    const [from, to, step = 1] = numbers.length === 1 ? [0, numbers[0]!] : (numbers as [number, number, number?]);
    if (step === 0) refuse("range() with a step of 0");
    const length = Math.max(0, Math.ceil((to - from) / step));
    if (length > longestRange) refuse(`range() of ${length} numbers; it may have ${longestRange}`);
    return Array.from({ length }, (_, i) => from + i * step);
  },
};

export function refuse(what: string): never {
  throw new Error(what);
}
