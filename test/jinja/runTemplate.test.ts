/** What templates write, against Python's Jinja (3.1.6, in the environment of `transformers`), and templates made to harm. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { compileChatTemplate } from "../../src/tokenizers/index.ts";

/** The variables; then templates with their text, null where Python refuses, none where it is only we that do. */
const [variables, ...cases] = readFileSync(fileURLToPath(new URL("./cases.jsonl", import.meta.url)), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line)) as [Record<string, unknown>, ...(readonly [string, (string | null)?])[]];

const write = (template: string, more = {}) =>
  compileChatTemplate(template).run({ ...variables, strftime_now: () => "2026", ...more }, false);

describe("templates write what Python's do", () => {
  it("in each of the cases", () => {
    expect(cases.length).toBeGreaterThan(1500);
    const wrong = cases.flatMap(([template, wanted]) => {
      let got: unknown = null;
      try {
        got = write(template);
      } catch (error) {
        expect(error).toMatchObject({ code: "E_CHAT_TEMPLATE" });
      }
      return got === (wanted ?? null) ? [] : [{ template, wanted, got }];
    });
    expect(wrong).toEqual([]);
  });

  it.each([
    ["{{ [] == '' }} {{ '1' == 1 }} {{ none == 0 }} {{ nothing == none }}", "False False False False"],
    ["{{ [1, {'a': []}] == [true, {'a': []}] }} {{ [1] in [[1]] }} {{ none in [none] }}", "True True True"],
    ["{{ messages[0] == messages[0] }} {{ messages[1] in messages[1:] }}", "True True"],
    [
      "{% for i in l %}{% set x = i %}a{% if i == 2 %}{% continue %}{% endif %}{% endfor %}{{ x is defined }}",
      "aaaFalse",
    ],
    ["{{ -7 % 1.0 }} {{ 7 % -1.0 }} {{ -7 % 3.5 }} {{ -7 % 7 }}", "0.0 -0.0 0.0 0"],
    ["{% macro f(a, b='d') %}{{ a }}{{ b }}{% endmacro %}{{ f(1, none) }}", "1None"],
  ])("%s", (template, text) => {
    expect(write(template)).toBe(text);
  });
});

describe("an integer beyond 2^53", () => {
  const n = 12345678901234567890n;
  it.each([
    ["{{ n }} {{ [n] }} {{ n ~ '' }} {{ n | int }} {{ n | string }}", `${n} [${n}] ${n} ${n} ${n}`],
    [
      "{{ n is number }} {{ n is integer }} {{ n is float }} {{ n is string }} {{ 1 if n else 2 }}",
      "True True False False 1",
    ],
    [
      "{{ n == n }} {{ n == 12345678901234567890.0 }} {{ n > 1 }} {{ n < 1.5 }} {{ n in [1, n] }}",
      "True False True False True",
    ],
    ["{{ n | float }}", "1.2345678901234567e+19"],
  ])("%s", (template, text) => {
    // 12345678901234567890.0 is 12345678901234567168.
    expect(write(template, { n })).toBe(text);
  });
  it.each([
    "{{ n + 1 }}",
    "{{ -n }}",
    "{{ n | abs }}",
    "{{ [n] | sum }}",
    "{{ n is odd }}",
    "{{ {n: 1} }}",
    "{{ n | round }}",
  ])("%s is refused", (template) => expect(() => write(template, { n })).toThrow("the chat template can't be applied"));
});

describe("a template that", () => {
  const doubled = (start: string, change: string) =>
    `{% set n = namespace(x=${start}) %}{% for i in range(99) %}{% set n.x = ${change} %}{% endfor %}`;
  const big = doubled("'ab'", "n.x ~ n.x if n.x | length < 9000000 else n.x");
  const deep = (open: string, middle: string, close: string) => open.repeat(50_000) + middle + close.repeat(50_000);

  it.each([
    [
      "loops in loops",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "does not end",
    ],
    ["has a long range()", "{{ range(10 ** 9) | length }}", "range() of 1000000000 numbers; it may have 100000"],
    ["calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deep"],
    [
      "calls itself twice",
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}",
      "does not end",
    ],
    ["doubles a text", `${doubled("'x'", "n.x + n.x")}`, "a text of more than"],
    ["repeats a text", "{{ 'x' * 10 ** 12 }}", "a text of more than"],
    ["repeats a list", "{{ [1] * 10 ** 12 }}", "does not end"],
    ["doubles a list", `${doubled("[1]", "n.x + n.x")}`, "does not end"],
    ["prints a list that holds itself twice, often", `${doubled("[1]", "[n.x, n.x]")}{{ n.x }}`, "does not end"],
    ["writes one as JSON", `${doubled("[1]", "[n.x, n.x]")}{{ n.x | tojson }}`, "does not end"],
    [
      "compares two",
      `${doubled("[1]", "[n.x, n.x]")}{% set y = n.x %}${doubled("[1]", "[n.x, n.x]")}{{ y == n.x }}`,
      "does not end",
    ],
    ["replaces nothing by much", `${big}{{ n.x | replace('', n.x) }}`, "E_CHAT_TEMPLATE"],
    ["replaces much by much", `${big}{{ n.x | replace('a', n.x) }}`, "E_CHAT_TEMPLATE"],
    ["looks for a long text in a long text", `${big}{{ ('a' ~ n.x[:5000000]) in n.x }}`, "does not end"],
    ["writes much", `${big}{% for i in range(99999) %}{{ n.x }}{% endfor %}`, "E_CHAT_TEMPLATE"],
    ["joins much", `${big}{{ range(99999) | join(n.x) }}`, "does not end"],
    ["indents by much", "{{ ('a\\n' * 90000) | indent(10000) }}", "E_CHAT_TEMPLATE"],
    ["pads to much", "{{ 'x'.center(10 ** 12) }}", "a text of 1000000000000 characters"],
    [
      "writes a deep one as JSON",
      `{% set n = namespace(s=['abc']) %}${"{% set n.s = [n.s, n.s] %}".repeat(60)}{{ n.s | tojson }}`,
      "does not end",
    ],
    ["rounds to many places", "{{ 1.5 | round(10 ** 9) }}{{ nothing.x }}", "undefined"],
    ["is nested deep", `{{ ${deep("(", "1", ")")} }}`, "nested too deep"],
    ["negates without end", `{{ ${deep("not ", "1", "")} }}`, "nested too deep"],
    ["adds without end", `{{ ${deep("1 + ", "1", "")} }}`, "nested too deep"],
    ["is nested deep in blocks", deep("{% if 1 %}", "x", "{% endif %}"), "nested too deep|more than"],
    ["has a long run of spaces", `{{ 1 }}${" ".repeat(500)}x`, "a run of 500 spaces"],
    ["is long", "x".repeat(3e5), "it has more than 262144 characters"],
  ])("%s is refused in time", (_, template, reason) => {
    const before = process.cpuUsage();
    let message = "";
    try {
      write(template);
    } catch (error) {
      message = `${(error as { code?: string }).code} ${(error as Error).message}`;
    }
    expect(message).toMatch(/^E_CHAT_TEMPLATE .*the chat template/);
    expect(message).toMatch(new RegExp(reason.replace(/[()]/g, "\\$&")));
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1e6).toBeLessThan(10);
  });

  it("writes a long conversation is none of them", () => {
    const messages = Array.from({ length: 2000 }, (_, i) => ({
      role: i % 2 ? "assistant" : "user",
      content: "word ".repeat(1000),
    }));
    const template =
      "{% set n = namespace(t='') %}{% for m in messages %}{% if m.role == 'user' and '<x>' not in m.content %}{% set n.t = n.t + '<' + m.role + '>' + m.content | trim + '\\n' %}{% endif %}{{ '<' + m.role + '>' + m.content.split('<x>')[-1].strip() + '\\n' }}{% endfor %}";
    expect(write(template, { messages }).length).toBeGreaterThan(9.9e6);
  });
});
