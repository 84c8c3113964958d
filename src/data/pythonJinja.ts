/**
 * Where the JavaScript library of Jinja silently writes something else than Python's: `strip`, `lstrip` and `rstrip` ignore what they
 * are to take away and know other white space, `capitalize` leaves the rest as it is, None, True and lists are printed and joined as
 * JavaScript's, and a text `+` anything is a text. The parsed template is rewritten to call our own functions there. What the library lacks it refuses by itself.
 */
import type { Environment, Interpreter, parse } from "@huggingface/jinja";
import { jinja } from "./lateLibraries.ts";

type Program = ReturnType<typeof parse>;

/** A node of the parsed template, or a value of a running one: what we use of the library's classes. */
interface Node {
  readonly type: string;
  readonly [key: string]: unknown;
}
interface Value {
  readonly type: string;
  readonly value: unknown;
  toString(): string;
}

/** Under names that no template can spell. */
const printName = "print it";
const addName = "add them";
const joinName = "join them";
const methods: Readonly<Record<string, (text: string, ...args: readonly string[]) => string>> = {
  strip: (text, taken) => stripEnd(stripStart(text, taken), taken),
  lstrip: (text, taken) => stripStart(text, taken),
  rstrip: (text, taken) => stripEnd(text, taken),
  capitalize: (text) => {
    const [first = "", ...rest] = text;
    return first.toUpperCase() + rest.join("").toLowerCase();
  },
};
const methodName = (method: string) => `method ${method}`;

/** The template with calls of our functions, which `providePython` puts in its reach. */
export function asPython(program: Program): Program {
  return rewrite(program as unknown as Node) as unknown as Program;
}

export function providePython(environment: Environment): void {
  const provideAny = (name: string, run: (args: readonly Value[]) => unknown) => {
    const made = environment.set(name, () => null) as unknown as { value: (args: readonly Value[]) => unknown };
    made.value = run;
  };
  const provide = (name: string, run: (args: readonly Value[]) => string) =>
    provideAny(name, (args) => new (jinja().Environment)().set("text", run(args)));
  provideAny(addName, ([left, right]) => sum(left!, right!));
  provide(printName, ([value]) => printed(value!));
  provide(joinName, ([list, between]) => {
    const items = list!.type === "StringValue" ? [...printed(list!)] : list!.value;
    if (!Array.isArray(items) || (between !== undefined && between.type !== "StringValue")) {
      throw new Error(`join of ${described(list!)}${between === undefined ? "" : ` with ${described(between)}`}`);
    }
    const texts = items.map((item: string | Value) => (typeof item === "string" ? item : printed(item)));
    return texts.join(between === undefined ? "" : printed(between));
  });
  for (const [method, run] of Object.entries(methods)) {
    provide(methodName(method), (args) => {
      const wrong = args.find(({ value }) => typeof value !== "string");
      if (wrong !== undefined) throw new Error(`${method} of or with ${printed(wrong)}, which is no text`);
      return run(...(args.map(({ value }) => value) as [string, ...string[]]));
    });
  }
}

const statements = new Set([
  ...["Program", "If", "For", "Break", "Continue", "Set", "Macro", "Comment", "CallStatement", "FilterStatement"],
  "StringLiteral", // text between tags, too
]);
/** Lists of statements; an expression among them is printed. */
const blocks = new Set(["body", "alternate", "defaultBlock"]);

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";

const call = (name: string, ...args: readonly unknown[]): Node => ({
  type: "CallExpression",
  callee: { type: "Identifier", value: name },
  args,
});
const print = (node: unknown): unknown => (isNode(node) && !statements.has(node.type) ? call(printName, node) : node);

function rewrite(node: Node): Node {
  const parts = Object.entries(node).map(([key, value]): [string, unknown] => [key, rewriteValue(key, value)]);
  return rewriteNode({ ...Object.fromEntries(parts), type: node.type });
}

function rewriteValue(key: string, value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => rewriteValue("", item));
    return blocks.has(key) ? items.map(print) : items;
  }
  if (value instanceof Map) return new Map([...value].map(([k, v]) => [rewriteValue("", k), rewriteValue("", v)]));
  return isNode(value) ? rewrite(value) : value;
}

function rewriteNode(node: Node): Node {
  const { callee, operator, filter } = node as { callee?: Node; operator?: { value: string }; filter?: Node };
  if (node.type === "BinaryExpression" && operator?.value === "~") {
    return { ...node, left: print(node.left), right: print(node.right) };
  }
  if (node.type === "BinaryExpression" && operator?.value === "+") return call(addName, node.left, node.right);
  if (node.type === "FilterExpression" && filter?.type === "CallExpression") {
    const named = filter.callee as Node;
    if (named.value === "join") return call(joinName, node.operand, ...(filter.args as readonly unknown[]));
  }
  if (node.type === "FilterExpression" && filter?.type === "Identifier") {
    if (filter.value === "join") return call(joinName, node.operand);
    if (filter.value === "trim") return call(methodName("strip"), print(node.operand));
    if (filter.value === "capitalize") return call(methodName("capitalize"), print(node.operand));
    if (filter.value === "string") return call(printName, node.operand);
  }
  if (node.type === "CallExpression" && callee?.type === "MemberExpression" && callee.computed === false) {
    const method = (callee.property as Node).value as string;
    if (Object.hasOwn(methods, method))
      return call(methodName(method), callee.object, ...(node.args as readonly unknown[]));
  }
  return node;
}

/** `left + right`: what is no text is not added to one, as when a message's content is a list of parts. */
function sum(left: Value, right: Value): unknown {
  const texts = [left, right].filter(({ type }) => type === "StringValue").length;
  if (texts === 1) throw new Error(`${described(left)} + ${described(right)}`);
  const values = new (jinja().Environment)();
  values.setVariable("left", left as unknown as Parameters<Environment["setVariable"]>[1]);
  values.setVariable("right", right as unknown as Parameters<Environment["setVariable"]>[1]);
  const operand = (value: string) => ({ type: "Identifier", value });
  const node = { type: "BinaryExpression", operator: { value: "+" }, left: operand("left"), right: operand("right") };
  return new (jinja().Interpreter)(values).evaluate(node as unknown as Parameters<Interpreter["evaluate"]>[0], values);
}

/** For messages: the start of a value. */
function described(value: Value): string {
  const text = value.type === "UndefinedValue" ? "a value that is missing" : literal(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** `{{ value }}`. */
function printed(value: Value): string {
  return value.type === "StringValue" ? (value.value as string) : value.type === "UndefinedValue" ? "" : literal(value);
}

/** Python's repr. */
function literal(value: Value): string {
  const list = () => (value.value as readonly Value[]).map(literal);
  switch (value.type) {
    case "NullValue":
      return "None";
    case "BooleanValue":
      return value.value ? "True" : "False";
    case "StringValue":
      return quoted(value.value as string);
    case "ArrayValue":
      return `[${list().join(", ")}]`;
    case "TupleValue":
      return list().length === 1 ? `(${list()[0]},)` : `(${list().join(", ")})`;
    case "ObjectValue":
      return `{${[...(value.value as ReadonlyMap<string, Value>)].map(([key, item]) => `${quoted(key)}: ${literal(item)}`).join(", ")}}`;
    default:
      return value.toString();
  }
}

const escapes: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inside = text.replace(/[\\\p{Cc}\xa0\xad]/gu, (character) => {
    return escapes[character] ?? `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
  return quote + (quote === "'" ? inside.replaceAll("'", "\\'") : inside) + quote;
}

/** What Python's strip() takes for white space. */
const white =
  "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";

function stripStart(text: string, taken = white): string {
  const characters = new Set(taken);
  let length = 0;
  for (const character of text) {
    if (!characters.has(character)) break;
    length += character.length;
  }
  return text.slice(length);
}

export function stripEnd(text: string, taken = white): string {
  const characters = new Set(taken);
  let end = text.length;
  while (end > 0) {
    const low = text.charCodeAt(end - 1);
    const pair = end > 1 && low >= 0xdc00 && low < 0xe000 && /[\ud800-\udbff]/.test(text[end - 2]!);
    const character = text.slice(end - (pair ? 2 : 1), end);
    if (!characters.has(character)) break;
    end -= character.length;
  }
  return text.slice(0, end);
}
