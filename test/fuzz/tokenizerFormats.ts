/** Tokenizers and their chat templates, as folders. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  findChatTemplate,
  loadChatTemplate,
  loadTokenizer,
  renderChat,
  textBytes,
} from "../../src/tokenizers/index.ts";
import { goldenPath } from "../golden.ts";
import type { Files, FuzzFormat } from "./format.ts";
import { mutateTemplate } from "./mutateTemplate.ts";

const kinds = fileURLToPath(new URL("../tokenizers/files/", import.meta.url));
const sample = "The cat's 1234 mats — naïve 你好\n\t <|end_of_text|></s> x\u00a0y";

function kindSeeds(): Files[] {
  return readdirSync(kinds).flatMap((name) => {
    if (!name.endsWith(".json")) return [];
    const { tokenizer } = JSON.parse(readFileSync(join(kinds, name), "utf8")) as { tokenizer?: unknown };
    return tokenizer === undefined
      ? []
      : [
          {
            "tokenizer.json": Buffer.from(JSON.stringify(tokenizer)),
            "tokenizer_config.json": Buffer.from('{"eos_token":"<|end|>"}'),
          },
        ];
  });
}

const config = { "tokenizer_config.json": readFileSync(goldenPath("10_tokenizer/tokenizer_config_llama3style.json")) };
const goldenSeeds = (): Files[] =>
  ["llama3style", "qwen2style"].map((name) => ({
    "tokenizer.json": readFileSync(goldenPath(`10_tokenizer/tokenizer_${name}.json`)),
    ...(name === "llama3style" && config),
  }));

const tokenizerJson: FuzzFormat = {
  name: "tokenizer.json",
  mutated: /tokenizer\.json$/,
  seeds: async () => [...goldenSeeds(), ...kindSeeds()],
  async read(folder) {
    const tokenizer = loadTokenizer(folder);
    for (const options of [{}, { control: true, framed: true }, { continues: true }]) {
      tokenizer.decode(tokenizer.encode(sample, options));
    }
    textBytes(tokenizer);
  },
};

const template =
  "{%- for m in messages %}{{ bos_token if loop.first }}<|{{ m.role }}|>\n{% if m.role == 'assistant' %}{% generation %}{{ m['content'] | trim }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ eos_token }}\n{% endfor %}{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{% macro f(x) %}{{ x ~ '!' }}{% endmacro %}{{ f('a') }}";

const quirks =
  "{% set ns = namespace(n='', seen=[]) %}{% for m in messages %}{% if m.role == 'user' and m.content is string and m not in ns.seen %}{% set ns.n = ns.n ~ m.content.split('H')[-1].strip() ~ loop.index %}{% elif m.tool_calls is defined %}{{ m.tool_calls | map(attribute='name') | join(', ') }}{% endif %}{% set ns.seen = ns.seen + [m] %}{% endfor %}{{ ns.n[::-1] }}{{ ns.seen | selectattr('role', 'equalto', 'user') | list | length }}{{ messages[1:] | tojson }}{% for k, v in messages[0].items() %}{{ k | upper | trim }}={{ v | replace('B', 'b') | indent(2) }}{% endfor %}{{ ns.seen == messages }}{{ ns.n | length % 3 }}{{ [3, 1, 2] | sort | last }}{% if messages | length > 99 %}{{ raise_exception('too long: ' ~ messages | length) }}{% endif %}";

const messages = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Hello?" },
  { role: "assistant", content: " Hi. " },
];

const chatTemplate: FuzzFormat = {
  name: "chat-template",
  mutated: /jinja$|tokenizer_config\.json$/,
  share: 2,
  mutate: (path, bytes, draws) =>
    path.endsWith("jinja") && draws.chance(0.85)
      ? Buffer.from(mutateTemplate(Buffer.from(bytes).toString(), draws))
      : undefined,
  async seeds() {
    const named = { bos_token: "<s>", eos_token: { content: "</s>", lstrip: false }, chat_template: template };
    const tokenizer = { "tokenizer.json": readFileSync(goldenPath("10_tokenizer/tokenizer_llama3style.json")) };
    const list = { ...named, chat_template: [{ name: "default", template }] };
    return [
      { ...tokenizer, "tokenizer_config.json": Buffer.from(JSON.stringify(named)) },
      { ...tokenizer, "tokenizer_config.json": Buffer.from(JSON.stringify(list)) },
      {
        ...tokenizer,
        "chat_template.jinja": Buffer.from(template),
        "tokenizer_config.json": Buffer.from('{"bos_token":"<s>"}'),
      },
      { ...tokenizer, "chat_template.jinja": Buffer.from(quirks) },
    ];
  },
  async read(folder) {
    const compiled = loadChatTemplate(folder);
    renderChat(compiled, messages, { tools: [{ name: "f", parameters: {} }] });
    renderChat(compiled, messages.slice(0, 2), { addGenerationPrompt: true });
  },
};

/** What names a tokenizer's special tokens and its templates, in a folder of each kind. */
const tokenizerConfig: FuzzFormat = {
  ...tokenizerJson,
  name: "tokenizer_config.json",
  mutated: /(tokenizer_config|special_tokens_map)\.json$/,
  share: 0.5,
  async seeds() {
    const old = {
      bos_token: "<s>",
      eos_token: { content: "<|end_of_text|>", lstrip: false },
      additional_special_tokens: [],
    };
    const several = {
      ...old,
      add_bos_token: true,
      chat_template: [
        { name: "default", template },
        { name: "tool_use", template },
      ],
    };
    const golden = goldenSeeds()[0]!;
    return [
      golden,
      kindSeeds()[0]!,
      { ...golden, "tokenizer_config.json": Buffer.from(JSON.stringify(several)) },
      {
        ...golden,
        "tokenizer_config.json": Buffer.from("{}"),
        "special_tokens_map.json": Buffer.from(JSON.stringify(old)),
      },
    ];
  },
  async read(folder) {
    await tokenizerJson.read(folder);
    const found = findChatTemplate(folder);
    if (found !== undefined) renderChat(found, messages);
  },
};

/** Pieces of SentencePiece, in its protocol buffer. */
const sentencePiece: FuzzFormat = {
  ...tokenizerJson,
  name: "sentencepiece",
  mutated: /tokenizer\.model$/,
  async seeds() {
    return ["sentencepiece-model", "sentencepiece-model-symbols"].map((name) => {
      const { model } = JSON.parse(readFileSync(join(kinds, `${name}.json`), "utf8")) as { model: string };
      return { "tokenizer.model": Buffer.from(model, "base64") };
    });
  },
};

/** As many ranks as Llama 3 has: bytes, and texts of three letters. */
function ranks(): string {
  const texts = Array.from({ length: 128_000 - 256 }, (_, i) => `${i.toString(36).padStart(4, "_")}`);
  const tokens = [
    ...Array.from({ length: 256 }, (_, byte) => Buffer.of(byte)),
    ...texts.map((text) => Buffer.from(text)),
  ];
  return tokens.map((token, rank) => `${token.toString("base64")} ${rank}\n`).join("");
}

const tiktoken: FuzzFormat = {
  ...tokenizerJson,
  name: "tiktoken-ranks",
  mutated: /tokenizer\.model$/,
  share: 0.03,
  seeds: async () => [{ "tokenizer.model": Buffer.from(ranks()) }],
};

export const tokenizerFormats: readonly FuzzFormat[] = [
  tokenizerJson,
  tokenizerConfig,
  sentencePiece,
  tiktoken,
  chatTemplate,
];
