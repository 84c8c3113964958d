/**
 * Hugging Face chat templates: parsed by their own JavaScript library, run in the environment that `transformers` gives a template
 * (`trim_blocks`, `lstrip_blocks`, `raise_exception`, `strftime_now`, loop controls, the `generation` tag). Messages in, text out; ids
 * and the mask of what the assistant says are chatExample.ts's.
 */
import { createHash } from "node:crypto";
import { UserError } from "../base/errors.ts";
import { type Node, runTemplate, stripEnd, toValue, UnwrittenNone } from "../jinja/index.ts";
import { dateText } from "./dateText.ts";
import { jinja } from "./lateLibraries.ts";

/** One turn: `{ role: "user", content: "…" }`. Templates may read other keys too (`tool_calls`, `reasoning_content`, …). */
export interface ChatMessage {
  readonly role: string;
  readonly [key: string]: unknown;
}

/** A compiled template with the special tokens it may spell. */
export interface ChatTemplate {
  readonly source: string;
  /** For messages: the file it was read from. */
  readonly origin: string;
  /** `bos_token`, `eos_token` and the like, as tokenizer_config.json names them, by spelling. */
  readonly specialTokens: Readonly<Record<string, string>>;
  /** The template marks what the assistant says by `{% generation %}`. */
  readonly marksAssistant: boolean;
  /** SHA-256 (hex) of what decides its texts: source and special tokens. */
  readonly hash: string;
  /** Text for the template's variables; with marks around generation blocks, where asked for. `renderChat` provides them. */
  readonly run: (variables: Readonly<Record<string, unknown>>, marked: boolean) => string;
}

/** How a conversation becomes text. */
export interface RenderOptions {
  /** End with the words that open an assistant's turn. Default: false. */
  readonly addGenerationPrompt?: boolean;
  /** End with the last message's own last character, so that a model goes on with it. Default: false. */
  readonly continueFinalMessage?: boolean;
  /** JSON schemas of functions, for templates that list them. */
  readonly tools?: readonly unknown[];
  /** More variables for the template, such as `enable_thinking`; they win over the special tokens. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** What `strftime_now` tells, in local time. Default: now. */
  readonly now?: Date;
}

/** Characters [start, end) of a text, in UTF-16 units. */
export interface TextSpan {
  readonly start: number;
  readonly end: number;
}

// Unicode noncharacters: no text for interchange holds them. One that does is found out below.
const marks = { start: "\ufdd0", end: "\ufdd1" };

/** Characters; the longest in use have some ten thousand. */
const longestTemplate = 1 << 18;
/** The library takes a time by the square of its length. */
const longRun = /\s{500}/;

/**
 * Compiles a template.
 * @param origin for messages. @throws UserError E_CHAT_TEMPLATE where the template is malformed
 */
export function compileChatTemplate(
  source: string,
  specialTokens: ChatTemplate["specialTokens"] = {},
  origin = "the chat template",
): ChatTemplate {
  const { program, marksAssistant } = attempt(`${origin}: the chat template can't be read`, () => {
    if (source.length > longestTemplate) throw new Error(`it has more than ${longestTemplate} characters`);
    if (longRun.test(source)) throw new Error("it has a run of 500 spaces or line ends");
    const { text, marksAssistant } = generationAsVariables(source);
    const tokens = jinja().tokenize(text, { lstrip_blocks: true, trim_blocks: true });
    return { program: jinja().parse(tokens) as unknown as Node, marksAssistant };
  });
  return {
    source,
    origin,
    specialTokens,
    marksAssistant,
    hash: createHash("sha256")
      .update(JSON.stringify([source, Object.entries(specialTokens).sort()]))
      .digest("hex"),
    run: (variables, marked) =>
      attempt(`${origin}: the chat template can't be applied`, () => {
        const { start, end } = marked ? marks : { start: "", end: "" };
        const own = Object.keys(variables).find((name) => name in constants);
        if (own !== undefined) throw new Error(`the variable ${own} is Jinja's own`);
        const all = { ...constants, ...variables, generation_start: start, generation_end: end };
        return runTemplate(program, new Map(Object.entries(all).map(([name, value]) => [name, toValue(value)])));
      }),
  };
}

/**
 * The text of a conversation, as `transformers`' apply_chat_template(tokenize=False) gives it. It holds its own control tokens
 * by spelling: encode it with `control: true` and add no further beginning (chatExample.ts does both).
 * @throws UserError E_CHAT_TEMPLATE with the template's own words where it refuses the conversation
 */
export function renderChat(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: RenderOptions = {},
): string {
  if (options.continueFinalMessage) return renderOpen(template, messages, options);
  return template.run(variablesOf(template, messages, options), false);
}

/**
 * The text, and the parts that the template's `{% generation %}` tags mark as the assistant's.
 * @throws UserError E_CHAT_TEMPLATE as `renderChat`
 */
export function renderMarkedChat(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: RenderOptions = {},
): { readonly text: string; readonly spans: readonly TextSpan[] } {
  const variables = variablesOf(template, messages, options);
  const marked = template.run(variables, true);
  let text = "";
  const spans: TextSpan[] = [];
  let start = 0;
  for (const part of marked.split(/([\ufdd0\ufdd1])/)) {
    if (part === marks.start) start = text.length;
    else if (part === marks.end) spans.push({ start, end: text.length });
    else text += part;
  }
  if (text !== template.run(variables, false)) {
    throw fault(`${template.origin}: the {% generation %} tags of the chat template can't be placed in its text`);
  }
  return { text, spans };
}

function variablesOf(template: ChatTemplate, messages: readonly ChatMessage[], options: RenderOptions) {
  const { addGenerationPrompt = false, tools, variables, now = new Date() } = options;
  return {
    ...template.specialTokens,
    tools: tools ?? null,
    documents: null,
    strftime_now: (format: string) => dateText(now, format),
    ...variables,
    messages: messages.map(plainMessage),
    add_generation_prompt: addGenerationPrompt,
  };
}

/**
 * Keys without a value count as missing, as a Parquet file gives every message all keys; but content that is null is None to a template,
 * which may not write it. An answer's reasoning goes by every name that templates read it by.
 */
function plainMessage(message: ChatMessage, index: number): Record<string, unknown> {
  const content = message.content === null ? new UnwrittenNone(`the content of message ${index + 1}`) : message.content;
  const all = "content" in message ? { ...message, content } : message;
  const entries: Record<string, unknown> = Object.fromEntries(
    Object.entries(all).filter(([, value]) => value !== null && value !== undefined),
  );
  const reasoning = entries.reasoning_content ?? entries.thinking ?? entries.reasoning;
  return reasoning === undefined ? entries : { thinking: reasoning, ...entries, reasoning_content: reasoning };
}

const endOfMessage = "\ufdd2";

function renderOpen(template: ChatTemplate, messages: readonly ChatMessage[], options: RenderOptions): string {
  const refuse = (problem: string) => fault(`${template.origin}: continueFinalMessage: ${problem}`);
  if (options.addGenerationPrompt) {
    throw refuse("the last message can't be continued and a new turn be opened at once; leave out addGenerationPrompt");
  }
  const last = messages.at(-1);
  if (typeof last?.content !== "string") throw refuse("the conversation does not end in a message with a text");
  // A space behind the mark tells whether the template trims the message.
  const open = { ...last, content: `${last.content}${endOfMessage} ` };
  const text = renderChat(template, [...messages.slice(0, -1), open], { ...options, continueFinalMessage: false });
  const at = text.lastIndexOf(endOfMessage);
  if (at < 0) throw refuse("the template leaves the last message out of the text");
  const head = text.slice(0, at);
  return text[at + 1] === " " ? head : stripEnd(head);
}

/** What Jinja and `transformers` put in every template's reach. */
const constants = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
  raise_exception: (message: unknown) => {
    throw new TemplateRefusal(String(message));
  },
};

class TemplateRefusal extends Error {}

const fault = (message: string) => new UserError("E_CHAT_TEMPLATE", message);

function attempt<T>(what: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof UserError) throw error;
    const reason =
      error instanceof RangeError && /call stack/.test(error.message)
        ? "it is nested too deep"
        : error instanceof Error
          ? error.message
          : String(error);
    throw fault(error instanceof TemplateRefusal ? `${what}; it says: ${reason}` : `${what} (${reason})`);
  }
}

/**
 * The library drops the tags of generation blocks. As variables they mark the text, and white space around them goes as it does
 * around a block's tags.
 */
function generationAsVariables(source: string): { readonly text: string; readonly marksAssistant: boolean } {
  let marksAssistant = false;
  const tag = /(^[ \t]*)?\{%([+-]?)\s*(end)?generation\s*([+-]?)%\}(\n?)/gm;
  const text = source
    .replace(/\r\n?/g, "\n")
    .replace(tag, (_, indent = "", left: string, end: string | undefined, right: string, newline) => {
      marksAssistant = true;
      const [open, close] = [left === "-" ? "{{-" : "{{", right === "-" ? "-}}" : "}}"];
      const name = end === undefined ? "generation_start" : "generation_end";
      return `${left === "+" ? indent : ""}${open} ${name} ${close}${right === "+" ? newline : ""}`;
    });
  return { text, marksAssistant };
}
