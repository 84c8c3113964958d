/**
 * Runs a parsed chat template as Python's Jinja does: in the sandbox of `transformers`, where values can't be changed. The library of
 * Jinja parses; its own interpreter compares, prints and scopes as JavaScript does. A template's work is counted, and one that would
 * not end, or fill memory, ends in an error.
 */

import { runFilter } from "./filters.ts";
import { itemsOf } from "./items.ts";
import type { Call, CallStatement, For, Macro, Member, Node, SetStatement } from "./nodes.ts";
import { signed } from "./numbers.ts";
import { attribute, binary, item, sliced } from "./operators.ts";
import { described, printed } from "./print.ts";
import {
  captured,
  functions,
  type Leap,
  lookUp,
  loopFacts,
  mentions,
  type Run,
  refuse,
  type Scope,
  usesLoop,
  within,
  write,
} from "./scope.ts";
import { runTest } from "./tests.ts";
import {
  type Arguments,
  type Callable,
  Float,
  integer,
  isDict,
  isTrue,
  type Key,
  Namespace,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";

/** Of work (values.ts): some seconds. A conversation of a megabyte takes a hundredth. */
const mostUnits = 1e7;

/** The text that a template writes. @throws Error in words for what it can't do, in bounded time and memory */
export function runTemplate(program: Node, variables: ReadonlyMap<string, Value>): string {
  let units = 0;
  const run: Run = {
    text: "",
    spend(more) {
      units += more;
      if (units > mostUnits) throw new Error("it does not end: no conversation takes so much work");
    },
  };
  const globals: Scope = { values: new Map<string, Value>([...Object.entries(functions), ...variables]) };
  execute(program, globals, run);
  return run.text;
}

function executeAll(nodes: readonly Node[], scope: Scope, run: Run): Leap {
  for (const node of nodes) {
    const leap = execute(node, scope, run);
    if (leap !== undefined) return leap;
  }
  return undefined;
}

function execute(node: Node, scope: Scope, run: Run): Leap {
  run.spend(1);
  switch (node.type) {
    case "Program":
      return executeAll(node.body, scope, run);
    case "If":
      return executeAll(isTrue(evaluate(node.test, scope, run)) ? node.body : node.alternate, scope, run);
    case "For":
      return loop(node, scope, run);
    case "Break":
      return "break";
    case "Continue":
      return "continue";
    case "Comment":
      return undefined;
    case "Set":
      set(node, scope, run);
      return undefined;
    case "Macro":
      scope.values.set(node.name.value, macro(node.name.value, node, scope, run));
      return undefined;
    case "CallStatement":
      write(run, printed(callWith(node, scope, run), run.spend));
      return undefined;
    case "FilterStatement": {
      const text = captured(run, () => executeAll(node.body, within(scope), run));
      write(run, printed(filtered(node.filter, text, scope, run), run.spend));
      return undefined;
    }
    default:
      write(run, printed(evaluate(node, scope, run), run.spend));
      return undefined;
  }
}

function loop({ loopvar, iterable, body, defaultBlock }: For, scope: Scope, run: Run): Leap {
  const [source, test] = iterable.type === "SelectExpression" ? [iterable.lhs, iterable.test] : [iterable];
  const all = itemsOf(evaluate(source, scope, run), run.spend);
  const items = all.filter((one) => {
    if (test === undefined) return true;
    const inner = within(scope);
    assign(loopvar, one, inner, run);
    return isTrue(evaluate(test, inner, run));
  });
  const factsOf = usesLoop(body) ? loopFacts(items, lookUp(scope, "loop"), run) : undefined;
  // Jinja counts rounds that reach their end.
  let isElse = true;
  for (const [i, one] of items.entries()) {
    run.spend(4);
    const inner = within(scope);
    if (factsOf !== undefined) inner.values.set("loop", factsOf(i));
    assign(loopvar, one, inner, run);
    const leap = executeAll(body, inner, run);
    if (leap === "break") break;
    if (leap === undefined) isElse = false;
  }
  return isElse ? executeAll(defaultBlock, within(scope), run) : undefined;
}

function set({ assignee, value, body }: SetStatement, scope: Scope, run: Run): void {
  const given =
    value === null ? captured(run, () => executeAll(body, within(scope), run)) : evaluate(value, scope, run);
  assign(assignee, given, scope, run);
}

function assign(target: Node, value: Value, scope: Scope, run: Run): void {
  if (target.type === "Identifier") scope.values.set(target.value, value);
  else if (target.type === "TupleLiteral") {
    const items = itemsOf(value, run.spend);
    const wanted = target.value.length;
    if (items.length !== wanted) refuse(`${described(value)} has ${items.length} items where ${wanted} are named`);
    for (const [i, one] of target.value.entries()) assign(one, items[i]!, scope, run);
  } else if (target.type === "MemberExpression" && target.property.type === "Identifier" && !target.computed) {
    const object = evaluate(target.object, scope, run);
    if (!(object instanceof Namespace)) refuse(`set of ${target.property.value} in what is no namespace`);
    object.fields.set(target.property.value, value);
  } else refuse("set of what is no name");
}

/** Names and defaults are bound when it is called, what else it names where it was written. */
function macro(name: string, { args, body }: Pick<Macro, "args" | "body">, scope: Scope, run: Run): Callable {
  return (given) => {
    const inner = within(scope);
    const named = new Map(given.named);
    for (const [i, parameter] of args.entries()) {
      const key = parameter.type === "Identifier" ? parameter.value : parameter.key.value;
      const otherwise = () =>
        parameter.type === "Identifier" ? new Undefined(`"${key}"`) : evaluate(parameter.value, inner, run);
      const value = i < given.args.length ? given.args[i]! : named.has(key) ? named.get(key)! : otherwise();
      named.delete(key);
      inner.values.set(key, value);
    }
    inner.values.set("varargs", Tuple.from(given.args.slice(args.length)));
    if (named.has("caller")) inner.values.set("caller", named.get("caller")!);
    named.delete("caller");
    inner.values.set("kwargs", new Map<Key, Value>(named));
    if (given.args.length > args.length && !mentions(body, "varargs")) {
      refuse(`${name}() takes ${args.length} arguments, not ${given.args.length}`);
    }
    if (named.size > 0 && !mentions(body, "kwargs")) refuse(`${name}() takes no argument ${[...named.keys()][0]}`);
    return captured(run, () => executeAll(body, inner, run));
  };
}

function callWith({ call, callerArgs, body }: CallStatement, scope: Scope, run: Run): Value {
  const given = argumentsOf(call.args, scope, run);
  const caller = macro("caller", { args: callerArgs ?? [], body }, scope, run);
  return called(call.callee, { ...given, named: new Map([...given.named, ["caller", caller]]) }, scope, run);
}

function called(callee: Node, given: Arguments, scope: Scope, run: Run): Value {
  const callable = evaluate(callee, scope, run);
  if (typeof callable !== "function") refuse(`a call of ${described(callable)}, which is no function`);
  return callable(given);
}

function argumentsOf(nodes: readonly Node[], scope: Scope, run: Run): Arguments {
  const args: Value[] = [];
  const named = new Map<string, Value>();
  for (const node of nodes) {
    if (node.type === "KeywordArgumentExpression") named.set(node.key.value, evaluate(node.value, scope, run));
    else if (node.type === "SpreadExpression") {
      for (const one of itemsOf(evaluate(node.argument, scope, run), run.spend)) args.push(one);
    } else if (node.type === "KeywordSpreadExpression") {
      const dict = evaluate(node.argument, scope, run);
      if (!isDict(dict)) refuse(`** of ${described(dict)}`);
      run.spend(dict.size);
      for (const [key, value] of dict) named.set(String(key), value);
    } else args.push(evaluate(node, scope, run));
  }
  return { args, named };
}

function filtered(filter: Node, value: Value, scope: Scope, run: Run): Value {
  if (filter.type === "Identifier") return runFilter(filter.value, value, { args: [], named: new Map() }, run.spend);
  const { callee, args } = filter as Call;
  if (callee.type !== "Identifier") refuse("a filter that is no name");
  return runFilter(callee.value, value, argumentsOf(args, scope, run), run.spend);
}

function evaluate(node: Node, scope: Scope, run: Run): Value {
  run.spend(1);
  const { spend } = run;
  const of = (inner: Node) => evaluate(inner, scope, run);
  switch (node.type) {
    case "StringLiteral":
      return node.value;
    case "IntegerLiteral":
      return integer(node.value);
    case "FloatLiteral":
      return new Float(node.value);
    case "ArrayLiteral":
      return node.value.map(of);
    case "TupleLiteral":
      return Tuple.from(node.value.map(of));
    case "ObjectLiteral":
      return new Map([...node.value].map(([key, value]) => [keyOf(of(key)), of(value)]));
    case "Identifier":
      return lookUp(scope, node.value);
    case "MemberExpression":
      return member(node, scope, run);
    case "CallExpression":
      return called(node.callee, argumentsOf(node.args, scope, run), scope, run);
    case "FilterExpression":
      return filtered(node.filter, of(node.operand), scope, run);
    case "TestExpression":
      return runTest(node.test.value, of(node.operand), { args: [], named: new Map() }, spend) !== node.negate;
    case "UnaryExpression":
      return node.operator.value === "not"
        ? !isTrue(of(node.argument))
        : signed(node.operator.value, of(node.argument));
    case "Ternary":
      return of(isTrue(of(node.condition)) ? node.trueExpr : node.falseExpr);
    case "SelectExpression":
      return isTrue(of(node.test)) ? of(node.lhs) : new Undefined("a value whose condition does not hold");
    case "BinaryExpression": {
      const operator = node.operator.value;
      const left = of(node.left);
      if (operator === "and") return isTrue(left) ? of(node.right) : left;
      if (operator === "or") return isTrue(left) ? left : of(node.right);
      return binary(operator, left, of(node.right), spend);
    }
    default:
      return refuse(`a ${node.type} where a value must be`);
  }
}

function keyOf(value: Value): Key {
  if (typeof value === "string" || value === null) return value;
  if (typeof value === "number" || typeof value === "boolean") return Number(value);
  return refuse(`${described(value)} is no key`);
}

function member({ object, property, computed }: Member, scope: Scope, run: Run): Value {
  const of = (node: Node | undefined) => (node === undefined ? undefined : evaluate(node, scope, run));
  const value = evaluate(object, scope, run);
  if (property.type === "SliceExpression") {
    return sliced(value, [of(property.start), of(property.stop), of(property.step)], run.spend);
  }
  if (property.type === "Identifier" && !computed) return attribute(value, property.value, run.spend);
  return item(value, evaluate(property, scope, run), run.spend);
}
