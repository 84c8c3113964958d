/** The chat template of a tokenizer on disk, where Hugging Face's tools look for it and with the special tokens they give it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { type ChatTemplate, compileChatTemplate } from "./chatTemplate.ts";
import { configFolder, namedTokens, readConfig } from "./tokenizerFiles.ts";
import { isObject, list } from "./tokenizerParts.ts";

export interface ChatTemplateChoice {
  /** Of a tokenizer with several: "tool_use", "rag". Default: "default". */
  readonly name?: string;
  /** A .jinja file to be used instead of the tokenizer's own template. */
  readonly file?: string;
}

/**
 * The chat template of the tokenizer that `tokenizer_path` names: chat_template.jinja beside it (others by name in
 * additional_chat_templates/), or else the `chat_template` of tokenizer_config.json, one string or a list by name.
 * @throws UserError E_CHAT_TEMPLATE where there is none, or none of that name
 */
export function loadChatTemplate(path: string, { name = "default", file }: ChatTemplateChoice = {}): ChatTemplate {
  const folder = path === "byte" ? undefined : configFolder(path);
  const config = folder === undefined ? {} : readConfig(folder);
  const specialTokens = namedTokens(config);
  if (file !== undefined) return compileChatTemplate(readTemplate(file), specialTokens, file);
  const templates = folder === undefined ? new Map<string, Named>() : templatesOf(folder, config);
  const found = templates.get(name);
  if (found !== undefined) return compileChatTemplate(found.source, specialTokens, found.origin);
  const others = [...templates.keys()].join(", ");
  throw new UserError(
    "E_CHAT_TEMPLATE",
    others === ""
      ? `tokenizer_path=${path}: this tokenizer has no chat template; put one beside it as chat_template.jinja, or take the tokenizer of a chat model`
      : `tokenizer_path=${path}: no chat template is named "${name}"; there are: ${others}`,
  );
}

interface Named {
  readonly source: string;
  readonly origin: string;
}

function templatesOf(folder: string, config: Readonly<Record<string, unknown>>): ReadonlyMap<string, Named> {
  const templates = new Map<string, Named>();
  const put = (name: unknown, source: unknown, origin: string) => {
    if (typeof name === "string" && typeof source === "string") templates.set(name, { source, origin });
  };
  const configFile = join(folder, "tokenizer_config.json");
  put("default", config.chat_template, configFile);
  for (const entry of list(config.chat_template)) {
    if (isObject(entry)) put(entry.name, entry.template, `${configFile}, chat_template "${entry.name}"`);
  }
  const more = join(folder, "additional_chat_templates");
  for (const file of existsSync(more) ? readdirSync(more) : []) {
    if (file.endsWith(".jinja")) put(basename(file, ".jinja"), readTemplate(join(more, file)), join(more, file));
  }
  const single = join(folder, "chat_template.jinja");
  if (existsSync(single)) put("default", readTemplate(single), single);
  return templates;
}

function readTemplate(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new UserError("E_CHAT_TEMPLATE", `${file}: the chat template can't be read (${(error as Error).message})`);
  }
}
