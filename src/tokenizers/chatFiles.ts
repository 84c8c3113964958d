/** The chat template of a tokenizer on disk, where Hugging Face's tools look for it and with the special tokens they give it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { UserError } from "../base/errors.ts";
import { type ChatTemplate, compileChatTemplate } from "./chatTemplate.ts";
import { isObject, list } from "./tokenizerParts.ts";
import { namedTokens, readTokenizerSource, type TokenizerSource } from "./tokenizerSource.ts";

/** Which of the templates there are. */
export interface ChatTemplateChoice {
  /** Of a tokenizer with several: "tool_use", "rag". Default: "default". */
  readonly name?: string;
  /** A .jinja file to be used instead of the tokenizer's own template. */
  readonly file?: string;
}

/**
 * The chat template of the tokenizer that `tokenizer_path` names: chat_template.jinja beside it (others by name in
 * additional_chat_templates/), or else the `chat_template` of tokenizer_config.json, one string or a list by name; a GGUF file's own.
 * @throws UserError E_CHAT_TEMPLATE where there is none, or none of that name
 */
export function loadChatTemplate(path: string, { name = "default", file }: ChatTemplateChoice = {}): ChatTemplate {
  const source = path === "byte" ? undefined : readTokenizerSource(path);
  const specialTokens = namedTokens(source?.config ?? {});
  if (file !== undefined) return compileChatTemplate(readTemplate(file), specialTokens, file);
  const templates = source === undefined ? new Map<string, Named>() : templatesOf(source);
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

/** The tokenizer's own chat template, where it has one. @throws UserError where that can't be read */
export function findChatTemplate(path: string): ChatTemplate | undefined {
  return path === "byte" || !templatesOf(readTokenizerSource(path)).has("default") ? undefined : loadChatTemplate(path);
}

interface Named {
  readonly source: string;
  readonly origin: string;
}

function templatesOf({ file, format, config }: TokenizerSource): ReadonlyMap<string, Named> {
  const templates = new Map<string, Named>();
  const put = (name: unknown, source: unknown, origin: string) => {
    if (typeof name === "string" && typeof source === "string") templates.set(name, { source, origin });
  };
  const folder = dirname(file);
  const configFile = format === "GGUF" ? file : join(folder, "tokenizer_config.json");
  put("default", config.chat_template, configFile);
  for (const entry of list(config.chat_template)) {
    if (isObject(entry) && typeof entry.name === "string")
      put(entry.name, entry.template, `${configFile}, chat_template "${entry.name}"`);
  }
  if (format === "GGUF") return templates;
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
