/** Mutations of chat templates by their words: valid more often than not, so that what runs them is reached. */
import type { Draws } from "./random.ts";

const words = [
  ...[
    "range(99999)",
    "range(10 ** 9)",
    "range(9)",
    "messages",
    "m",
    "loop",
    "loop.index",
    "ns",
    "tools",
    "none",
    "nothing",
  ],
  ...[
    "''",
    "'x'",
    "[]",
    "{}",
    "(1, 2)",
    "0",
    "-1",
    "2.5",
    "10 ** 9",
    "[m, m]",
    "'\\ud800'",
    "m.content",
    "messages[-1]",
  ],
  ...[" + ", " ~ ", " * ", " - ", " // ", " % ", " ** ", " == ", " in ", " not in ", " < ", " and ", " or ", " if "],
  ...[
    " | tojson",
    " | length",
    " | list",
    " | join(',')",
    " | sort",
    " | replace('', m)",
    " | indent(999)",
    " | unique",
  ],
  ...[
    " | map(attribute='role')",
    " | selectattr('role')",
    " | dictsort",
    " | round(9)",
    " | int",
    " | default(m, true)",
  ],
  ...[
    ".items()",
    ".split()",
    ".strip('x')",
    ".replace('', 'xx')",
    ".center(99)",
    "[::-1]",
    "[0]",
    "['x']",
    ".x",
    "[1:2]",
  ],
  ...[
    " is defined",
    " is string",
    " is mapping",
    " is odd",
    "{{ ",
    " }}",
    "{% ",
    " %}",
    "{%- ",
    " -%}",
    "(",
    ")",
    "[",
    "]",
  ],
  ...[
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if m %}",
    "{% endif %}",
    "{% set m = [m, m] %}",
    "{% set ns.n = ns %}",
  ],
  ...[
    "{% macro f(x) %}",
    "{% endmacro %}",
    "{{ f(f) }}",
    "{{ ns }}",
    "{% generation %}",
    "{% break %}",
    "{% continue %}",
  ],
  ...[
    "{% for i in range(99999) %}{% for j in range(99999) %}",
    "{% set ns.n = ns.n ~ ns.n ~ 'x' %}",
    "{# ",
    " #}",
    "\n",
    "  ",
  ],
];
const cut = /(\{[%{#][-+]?|[-+]?[%}#]\}|\s+|[|.()[\],~+=]|\w+|'[^']*')/;

/** One to four words gone, put in, put elsewhere, or many times over. */
export function mutateTemplate(source: string, draws: Draws): string {
  const parts = source.split(cut).filter((part) => part !== "");
  for (let times = 1 + draws.int(4); times > 0; times--) {
    const at = draws.int(parts.length + 1);
    switch (draws.int(6)) {
      case 0:
        parts.splice(at, 1 + draws.int(3));
        break;
      case 1:
        parts.splice(at, 0, ...parts.slice(draws.int(parts.length + 1)).slice(0, draws.int(20)));
        break;
      case 2:
        parts.splice(at, 1, parts[draws.int(parts.length)] ?? "");
        break;
      case 3:
        parts.splice(at, 0, draws.pick(words).repeat(draws.pick([1, 1, 2, 30, 3000])));
        break;
      default:
        parts.splice(at, draws.int(2), draws.pick(words));
    }
  }
  return parts.join("");
}
