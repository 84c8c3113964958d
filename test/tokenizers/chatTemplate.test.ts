/** Chat templates against golden set 16, and the trials B6, B8 and B10 of public bug reports. */
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import {
  assistantSpans,
  type ChatMessage,
  chatExample,
  compileChatTemplate,
  copyTokenizer,
  loadChatTemplate,
  loadTokenizer,
  renderChat,
} from "../../src/tokenizers/index.ts";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { goldenJson, goldenPath } from "../golden.ts";
import { llama3Folder } from "./llama3.ts";

interface Case {
  readonly template: string;
  readonly conversation: number;
  readonly text: string;
  readonly with_generation_prompt: { readonly suffix: string };
  readonly ids: readonly number[];
  readonly assistant_char_spans: readonly (readonly [number, number])[];
  readonly mask_prefix: string;
  readonly mask_generation?: string;
  readonly continue_final_message?: string;
  readonly error?: string;
}
interface Golden {
  readonly templates: Readonly<Record<string, string>>;
  readonly eos_token: Readonly<Record<string, string>>;
  readonly bos_token: string;
  readonly conversations: readonly (readonly ChatMessage[])[];
  readonly cases: readonly Case[];
  readonly masked_loss: readonly {
    readonly conversation: number;
    readonly template: string;
    readonly ids: readonly number[];
    readonly mask: string;
  }[];
}

const golden = goldenJson<Golden>("16_chat/golden");
const tokenizer = loadTokenizer(goldenPath("16_chat/tokenizer.json"));
const templateOf = (name: string, source = golden.templates[name]!) =>
  compileChatTemplate(source, { bos_token: golden.bos_token, eos_token: golden.eos_token[name]! }, name);
/** The same template without its generation tags: what the assistant says is then told by rendering prefixes. */
const untagged = (name: string) =>
  templateOf(name, golden.templates[name]!.replace(/\{%-\s*(end)?generation\s*-%\}/g, ""));

describe("golden 16", () => {
  const cases = golden.cases.filter(({ error }) => error === undefined);
  const each = cases.map((one) => [`${one.template}, conversation ${one.conversation}`, one] as const);

  it("is read whole", () => {
    expect(golden.cases).toHaveLength(60);
    expect(cases).toHaveLength(59);
  });

  it.each(each)("%s: text, generation prompt, continued message", (_, { template, conversation, ...wanted }) => {
    const messages = golden.conversations[conversation]!;
    const compiled = templateOf(template);
    expect(renderChat(compiled, messages)).toBe(wanted.text);
    expect(renderChat(compiled, messages, { addGenerationPrompt: true })).toBe(
      wanted.text + wanted.with_generation_prompt.suffix,
    );
    if (wanted.continue_final_message !== undefined) {
      expect(renderChat(compiled, messages, { continueFinalMessage: true })).toBe(wanted.continue_final_message);
    }
  });

  it.each(each)("%s: spans, ids and masks", (_, { template, conversation, ...wanted }) => {
    const messages = golden.conversations[conversation]!;
    const characters = (text: string, unit: number) => [...text.slice(0, unit)].length;
    const { text, spans } = assistantSpans(untagged(template), messages);
    expect(spans.map(({ start, end }) => [characters(text, start), characters(text, end)])).toEqual(
      wanted.assistant_char_spans,
    );
    const example = chatExample(untagged(template), tokenizer, messages, { addBos: false });
    expect([...example.ids]).toEqual(wanted.ids);
    expect([...example.mask].join("")).toBe(wanted.mask_prefix);
    if (wanted.mask_generation !== undefined) {
      const tagged = chatExample(templateOf(template), tokenizer, messages, { addBos: false });
      expect([...tagged.ids]).toEqual(wanted.ids);
      expect([...tagged.mask].join("")).toBe(wanted.mask_generation);
    }
  });

  it("a template's own refusal is passed on", () => {
    const refused = golden.cases.find(({ error }) => error !== undefined)!;
    const render = () => renderChat(templateOf(refused.template), golden.conversations[refused.conversation]!);
    expect(render).toThrow(refused.error!);
    expect(render).toThrow(expect.objectContaining({ code: "E_CHAT_TEMPLATE" }));
  });

  it("the examples of its masked losses", () => {
    for (const { template, conversation, ids, mask } of golden.masked_loss) {
      const example = chatExample(templateOf(template), loadTokenizer("byte"), golden.conversations[conversation]!);
      expect([...example.ids]).toEqual(ids);
      expect([...example.mask].join("")).toBe(mask);
    }
  });
});

describe("a chat template", () => {
  const render = (source: string, messages: readonly ChatMessage[] = [], options = {}) =>
    renderChat(compileChatTemplate(source, { bos_token: "<s>" }), messages, options);
  const hello = [{ role: "user", content: "hello" }];

  it("has the environment of transformers", () => {
    expect(render("  {% if true %}\nx\n  {% endif %}\ny\n")).toBe("x\ny");
    expect(
      render(
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i > 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
      ),
    ).toBe("023");
    expect(
      render("{{ range(5, 1, -2) | list | length }}{{ bos_token }}{{ tools is none }}{{ nothing is defined }}"),
    ).toBe("2<s>TrueFalse");
    expect(
      render("{{ tools | tojson }} {{ tools[0] | tojson(indent=2) }}", [], {
        tools: [{ name: "f<é>", x: [1, 2.5, null] }],
      }),
    ).toBe(
      '[{"name": "f<é>", "x": [1, 2.5, null]}] {\n  "name": "f<é>",\n  "x": [\n    1,\n    2.5,\n    null\n  ]\n}',
    );
    const now = new Date(2026, 0, 5, 15, 4, 9);
    expect(render("{{ strftime_now('%d %b %Y %A %-d %I:%M:%S %p %j %%') }}", [], { now })).toBe(
      "05 Jan 2026 Monday 5 03:04:09 PM 005 %",
    );
    expect(render("{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(messages[0]['content'] | upper) }}", hello)).toBe(
      "[HELLO]",
    );
    expect(render("{{ thinking }}", [], { variables: { thinking: "on" } })).toBe("on");
  });

  it.each([
    [
      "{{ m.content.strip('\\n') }}|{{ m.content.lstrip('\\n') }}|{{ m.content.rstrip('\\n ') }}|",
      "  hi |  hi \n|\n  hi|",
    ],
    [
      "{{ m.content.strip() }}|{{ m.content | trim }}|{{ 'xaxx'.strip('x') }}|{{ ' \u0085a\ufeff ' | trim }}|",
      "hi|hi|a|a\ufeff|",
    ],
    [
      "{{ none }} {{ true }} {{ 3 > 4 }} {{ 1.0 }} {{ nothing }}|{{ 'a' ~ 1 ~ none ~ true }}",
      "None True False 1.0 |a1NoneTrue",
    ],
    ["{{ [1, 'a\"b', none, (2, 3)] }} {{ {'k': [true]} }}", "[1, 'a\"b', None, (2, 3)] {'k': [True]}"],
    ["{{ 'aB c'.capitalize() }}{{ 'aB' | capitalize }}{{ [1] | string }}{{ m.get('x') }}", "Ab cAb[1]None"],
    [
      "{% set x %}{{ true }}{% endset %}{{ x }}{% if x == 'True' %}y{% endif %}{% for k in m %}{{ k }}{% endfor %}",
      "Trueyrolecontent",
    ],
  ])("writes what Python's Jinja writes: %s", (source, text) => {
    const messages = [{ role: "user", content: "\n  hi \n" }];
    expect(render(`{%- set m = messages[0] -%}${source}`, messages)).toBe(text);
  });

  it.each([
    ["{'type': 'text', 'text': 'hi'} in a list", [{ type: "text", text: "hi" }]],
    ["an object", { parts: ["hi"] }],
    ["true", true],
    ["a number", 7],
  ])("refuses to add a content that is %s to a text, as Python does", (_, content) => {
    const odd = [{ role: "user", content }];
    expect(() => render("{{ '<' + messages[0].content }}", odd)).toThrow(/can't be applied \('<' \+ /);
    expect(() => render("{{ messages[0]['content'] + '>' }}", odd)).toThrow(/can't be applied \(.* \+ '>'\)/);
    expect(() => render("{% set x = '' %}{% set x = x + '<' + messages[0].content + '>' %}{{ x }}", odd)).toThrow("+");
    const parts =
      "{% if c is string %}{{ '<' + c }}{% else %}{% for p in c %}{{ '<' + p.text }}{% endfor %}{% endif %}";
    const listed = Array.isArray(content) ? "<hi" : undefined;
    if (listed) expect(render(`{% set c = messages[0].content %}${parts}`, odd)).toBe(listed);
  });

  it("adds numbers, lists and texts, and joins and prints what is no text, as Python does", () => {
    expect(render("{{ 1 + 2 }} {{ 1.0 + 2 }} {{ [1] + ['a'] }} {{ 'a' + 'b' + ('c' ~ 1) }}")).toBe(
      "3 3.0 [1, 'a'] abc1",
    );
    expect(render("{{ [true, none, {'a': 1}] | join(', ') }} {{ 'abc' | join('-') }} {{ [1, 2] | join }}")).toBe(
      "True, None, {'a': 1} a-b-c 12",
    );
  });

  it("sees no keys without a value, and an answer's reasoning by each of its names", () => {
    const answer = [{ role: "assistant", name: null, reasoning: "hm" }];
    expect(
      render("{{ 'name' in messages[0] }} {{ messages[0].reasoning_content }} {{ messages[0].thinking }}", answer),
    ).toBe("False hm hm");
  });

  it("that is malformed, or fails, is refused with its file and the reason", () => {
    const compile = (source: string) => compileChatTemplate(source, {}, "chat_template.jinja");
    expect(() => compile("{% if x %}")).toThrow(/^chat_template\.jinja: the chat template can't be read \(/);
    expect(() => renderChat(compile("{{ nothing() }}"), hello)).toThrow(
      /^chat_template\.jinja: the chat template can't be applied \(/,
    );
    expect(() => renderChat(compile("{{ strftime_now('%Q') }}"), hello)).toThrow("%Q");
    expect(() => render("x", hello, { continueFinalMessage: true })).toThrow("leaves the last message out");
    expect(() => render("x", hello, { continueFinalMessage: true, addGenerationPrompt: true })).toThrow(
      "leave out addGenerationPrompt",
    );
    expect(() => render("x", [], { continueFinalMessage: true })).toThrow("does not end in a message with a text");
  });

  it("has a hash of its source and special tokens", () => {
    const hash = (source: string, bos: string) => compileChatTemplate(source, { bos_token: bos }).hash;
    expect(hash("a", "b")).toBe(hash("a", "b"));
    expect(new Set([hash("a", "b"), hash("b", "b"), hash("a", "c")]).size).toBe(3);
  });

  it("whose generation tags stand on lines of their own leaves no trace of them", () => {
    const source = "{% for m in messages %}\n  {% generation %}\n{{ m.content }}\n  {%+ endgeneration %}\n{% endfor %}";
    const example = assistantSpans(compileChatTemplate(source), [{ role: "assistant", content: "hi" }]);
    expect(example).toEqual({ text: "hi\n  ", spans: [{ start: 0, end: 5 }] });
  });

  it("of a message that holds the marks of generation blocks is refused, not misread", () => {
    const tagged = templateOf("chatml_generation");
    expect(() => assistantSpans(tagged, [{ role: "assistant", content: "a\ufdd0b" }])).toThrow("can't be placed");
  });
});

describe("a tokenizer's chat template", () => {
  const config = (more: object) => JSON.stringify({ bos_token: "<s>", eos_token: { content: "</s>" }, ...more });
  const textOf = (files: Record<string, string>, choice = {}) =>
    renderChat(loadChatTemplate(temporaryFolder({ "tokenizer.json": "{}", ...files }), choice), []);

  it("is tokenizer_config.json's, one or several by name", () => {
    expect(textOf({ "tokenizer_config.json": config({ chat_template: "{{ bos_token }}1{{ eos_token }}" }) })).toBe(
      "<s>1</s>",
    );
    const several = {
      "tokenizer_config.json": config({
        chat_template: [
          { name: "default", template: "1" },
          { name: "tool_use", template: "2" },
        ],
      }),
    };
    expect(textOf(several)).toBe("1");
    expect(textOf(several, { name: "tool_use" })).toBe("2");
    expect(() => textOf(several, { name: "rag" })).toThrow(
      'no chat template is named "rag"; there are: default, tool_use',
    );
  });

  it("is chat_template.jinja before that, and a named file before both", () => {
    const files = {
      "tokenizer.json": "{}",
      "tokenizer_config.json": config({ chat_template: "1" }),
      "chat_template.jinja": "{{ bos_token }}2",
      "additional_chat_templates/tool_use.jinja": "3",
      "other.txt": "4",
    };
    expect(textOf(files)).toBe("<s>2");
    expect(textOf(files, { name: "tool_use" })).toBe("3");
    const folder = temporaryFolder(files);
    expect(renderChat(loadChatTemplate(folder, { file: join(folder, "other.txt") }), [])).toBe("4");
  });

  it("that is missing is refused with what to do", () => {
    expect(() => textOf({ "tokenizer_config.json": config({}) })).toThrow(
      "has no chat template; put one beside it as chat_template.jinja",
    );
    expect(() => loadChatTemplate("byte")).toThrow("tokenizer_path=byte: this tokenizer has no chat template");
    expect(() => loadChatTemplate("byte", { file: "no/such.jinja" })).toThrow(
      "no/such.jinja: the chat template can't be read",
    );
  });

  it("goes along when a run keeps its tokenizer", () => {
    const folder = temporaryFolder({
      "chat_template.jinja": "{{ bos_token }}kept",
      "special_tokens_map.json": '{"bos_token":"<s>"}',
    });
    copyFileSync(goldenPath("16_chat/tokenizer.json"), join(folder, "tokenizer.json"));
    const copy = temporaryFolder();
    copyTokenizer(folder, copy);
    expect(renderChat(loadChatTemplate(copy), [])).toBe("<s>kept");
  });
});

describe("trials", () => {
  const turns = [
    { role: "user", content: "one" },
    { role: "assistant", content: "first" },
    { role: "user", content: "two" },
    { role: "assistant", content: "second" },
  ];
  const saidBy = (template: ReturnType<typeof templateOf>, messages: readonly ChatMessage[] = turns) => {
    const { ids, mask } = chatExample(template, tokenizer, messages);
    return tokenizer.decode(ids.filter((_, i) => mask[i] === 1));
  };

  it("B6: the end of each answer keeps its place in the mask, though the same token also pads", () => {
    const end = tokenizer.encode("<|im_end|>", { control: true })[0]!;
    const { ids, mask } = chatExample(templateOf("chatml"), tokenizer, turns);
    const ends = [...ids.keys()].filter((i) => ids[i] === end);
    // system, user, assistant, user, assistant
    expect(ends.map((i) => mask[i])).toEqual([0, 0, 1, 0, 1]);
  });

  it("B8: without generation tags the answers alone are trained on, by rendering prefixes", () => {
    expect(saidBy(templateOf("llama3"))).toBe("first<|eot_id|>second<|eot_id|>");
    expect(saidBy(templateOf("chatml"))).toBe("first<|im_end|>\nsecond<|im_end|>\n");
    expect(saidBy(templateOf("chatml_generation"))).toBe("first<|im_end|>second<|im_end|>");
    expect(saidBy(templateOf("llama3"), turns.slice(0, 1))).toBe("");
  });

  it("B8: the stock template of Llama 3 is told apart the same way", async (context) => {
    const folder = await llama3Folder(context);
    const llama3 = loadTokenizer(folder);
    const { ids, mask } = chatExample(loadChatTemplate(folder), llama3, turns);
    expect(llama3.decode(ids.filter((_, i) => mask[i] === 1))).toBe("first<|eot_id|>second<|eot_id|>");
    expect([...ids].filter((id) => id === 128_000)).toEqual([128_000]);
  });

  it("B8: a template that writes an answer otherwise once others follow, or opens it otherwise, is refused by name", () => {
    const forgetful =
      "{% for m in messages %}[{{ m.role }}]{% if loop.last or m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
    expect(() => chatExample(compileChatTemplate(forgetful), tokenizer, turns)).toThrow(
      /message 2 is written otherwise once others follow it; use a chat template with \{% generation %\} tags/,
    );
    const other =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}<{% endif %}";
    expect(() => chatExample(compileChatTemplate(other), tokenizer, turns)).toThrow(
      "the words that open an answer are not those that message 2 begins with",
    );
    const idle =
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if false %}{% generation %}{% endgeneration %}{% endif %}";
    expect(() => chatExample(compileChatTemplate(idle), tokenizer, turns)).toThrow("mark nothing of this conversation");
  });

  it("B8: the mask holds where the tokens' bytes are not the text's", () => {
    const decomposed = [
      { role: "user", content: "cafe\u0301 nai\u0308ve" },
      { role: "assistant", content: " a\u030a b " },
    ];
    const source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    const said = (path: string, rules: object = {}) => {
      const file = JSON.parse(readFileSync(path, "utf8"));
      const json = file.tokenizer ?? file;
      const content = "<|im_end|>";
      const known = json.added_tokens.find((token: { content: string }) => token.content === content);
      if (known) Object.assign(known, rules);
      else json.added_tokens.push({ id: Object.keys(json.model.vocab).length + 20, content, special: true, ...rules });
      const config = JSON.stringify({ eos_token: content });
      const other = loadTokenizer(
        temporaryFolder({ "tokenizer.json": JSON.stringify(json), "tokenizer_config.json": config }),
      );
      const { ids, mask } = chatExample(compileChatTemplate(source), other, decomposed);
      return other.decode(ids.filter((_, i) => mask[i] === 1));
    };
    // A normalizer changes the text; an end token takes the white space behind it; spaces are put before a text.
    expect(said(goldenPath("10_tokenizer/tokenizer_qwen2style.json"))).toBe(" \u00e5 b <|im_end|>\n");
    expect(said(goldenPath("16_chat/tokenizer.json"), { rstrip: true })).toBe(" a\u030a b <|im_end|>");
    const pieces = fileURLToPath(new URL("files/sentencepiece-bpe.json", import.meta.url));
    expect(said(pieces)).toMatch(/^ *a\u030a b <\|im_end\|> *\n$/);
  });

  it.each(["llama3", "zephyr", "strict", "chatml"])(
    "B10: one beginning of text with the template %s, whether it spells one or not",
    (name) => {
      const bos = tokenizer.encode(golden.bos_token, { control: true })[0]!;
      expect(tokenizer.frame.before).toEqual([bos]);
      const { ids, mask } = chatExample(templateOf(name), tokenizer, turns);
      expect([...ids].filter((id) => id === bos)).toEqual([bos]);
      expect(ids[0]).toBe(bos);
      expect(mask).toHaveLength(ids.length);
      expect(mask[0]).toBe(0);
    },
  );
});

describe("content that is null", () => {
  const call = { role: "assistant", content: null, tool_calls: [{ name: "f" }], name: null };
  const told = (template: string) => renderChat(compileChatTemplate(template), [{ role: "user", content: "a" }, call]);
  it("is None to a template that asks, as DeepSeek's does", () => {
    const template =
      "{% for m in messages %}{% if m['content'] is none %}<call>{{ m.tool_calls[0].name }}{% else %}{{ m['content'] + ';' }}{% endif %}{% endfor %}";
    expect(told(template)).toBe("a;<call>f");
    const asked =
      "{% set c = messages[1].content %}{{ c == none }} {{ none == c }} {{ c is defined }} {{ c is string }} {{ 1 if c else 2 }} {{ c in [none] }} {{ 'content' in messages[1] }} {{ 'name' in messages[1] }} {{ c | tojson }} {{ c or 'x' }} {{ c | default('y', true) }} {{ messages | selectattr('content', 'none') | list | length }}";
    expect(told(asked)).toBe("True True True False 2 True True False null x y 1");
    expect(told("{{ messages[1] | tojson }}")).toBe(
      '{"role": "assistant", "content": null, "tool_calls": [{"name": "f"}]}',
    );
  });

  it.each([
    "{{ m.content }}",
    "{{ m.content | trim }}",
    "{{ m.content ~ '' }}",
    "{{ m.content | string }}",
    "{{ m }}",
    "{{ [m.content] | join }}",
  ])("is never written as the word None: %s", (written) => {
    expect(() => told(`{% for m in messages %}${written}{% endfor %}`)).toThrow(
      "the content of message 2 is None, and would be written as the word None",
    );
  });
});
