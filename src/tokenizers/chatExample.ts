/**
 * A conversation as a training example: its ids and, for each, whether the assistant says it. Spans of the text come from the
 * template's `{% generation %}` tags or, where it has none, from rendering the conversation up to each answer; a token counts
 * where it overlaps one.
 */
import { UserError } from "../base/errors.ts";
import {
  type ChatMessage,
  type ChatTemplate,
  type RenderOptions,
  renderChat,
  renderMarkedChat,
  type TextSpan,
} from "./chatTemplate.ts";
import { framedIds } from "./frame.ts";
import { markTokens } from "./markTokens.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** A conversation as tokens. */
export interface ChatExample {
  readonly ids: Int32Array;
  /** 1 for each token of the assistant's, 0 for the others: by place, so that an end token that also pads keeps its loss. */
  readonly mask: Uint8Array;
}

/** How a conversation becomes tokens. */
export interface ChatExampleOptions extends Omit<RenderOptions, "addGenerationPrompt" | "continueFinalMessage"> {
  /** The conversation begins with the token the tokenizer puts before a text, whether or not the template spells it. Default: true. */
  readonly addBos?: boolean;
}

/**
 * What `strftime_now` tells in training examples: Llama 3's own default, so that the same conversations give the same ids on
 * any day.
 */
export const exampleDate = new Date(2024, 6, 26);

/**
 * Ids and mask of a conversation, for training on what the assistant says. The ids are the encoding of the rendered text, with
 * exactly one beginning-of-text token where the tokenizer puts one before a text.
 * @throws UserError E_CHAT_TEMPLATE where the template refuses the conversation, or what the assistant says can't be told
 */
export function chatExample(
  template: ChatTemplate,
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  { addBos = true, ...given }: ChatExampleOptions = {},
): ChatExample {
  const options = { now: exampleDate, ...given };
  const { text, spans } = assistantSpans(template, messages, options);
  const { ids, mask } = markTokens(tokenizer, text, spans);
  const { before } = tokenizer.frame;
  if (!addBos || before.length === 0 || before.every((id, i) => ids[i] === id)) return { ids, mask };
  const framedMask = new Uint8Array(before.length + mask.length);
  framedMask.set(mask, before.length);
  return { ids: framedIds({ before, after: [] }, ids), mask: framedMask };
}

/**
 * A conversation's text and what of it the assistant says, with what ends each answer.
 * @throws UserError E_CHAT_TEMPLATE where that can't be told
 */
export function assistantSpans(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: RenderOptions = {},
): { readonly text: string; readonly spans: readonly TextSpan[] } {
  const answers = messages.flatMap(({ role }, i) => (role === "assistant" ? [i] : []));
  if (template.marksAssistant) {
    const marked = renderMarkedChat(template, messages, options);
    if (answers.length > 0 && marked.spans.length === 0) {
      throw fault(template, "its {% generation %} tags mark nothing of this conversation");
    }
    return marked;
  }
  const whole = renderChat(template, messages, options);
  const opening = constantOpening(template, whole, messages, options);
  const closed = (rendered: string) => rendered.slice(0, rendered.length - opening.length);
  const text = closed(whole);
  const spans = answers.map((i) => {
    const head = renderChat(template, messages.slice(0, i), { ...options, addGenerationPrompt: true });
    const tail = i + 1 === messages.length ? text : closed(renderChat(template, messages.slice(0, i + 1), options));
    if (!tail.startsWith(head)) {
      throw fault(template, `the words that open an answer are not those that message ${i + 1} begins with`);
    }
    if (!text.startsWith(tail)) throw fault(template, `message ${i + 1} is written otherwise once others follow it`);
    return { start: head.length, end: tail.length };
  });
  return { text, spans };
}

/**
 * Some templates (Llama 3's first one) open an answer behind every conversation, asked or not: the words they do it with, which
 * belong to no example. Empty for the others.
 */
function constantOpening(
  template: ChatTemplate,
  text: string,
  messages: readonly ChatMessage[],
  options: RenderOptions,
): string {
  if (text !== renderChat(template, messages, { ...options, addGenerationPrompt: true })) return "";
  let alone: string;
  try {
    alone = renderChat(template, [], options);
  } catch {
    return ""; // no conversation, no text: the template opens nothing by itself
  }
  const bos = template.specialTokens.bos_token ?? "";
  const opening = alone.startsWith(bos) ? alone.slice(bos.length) : alone;
  return text.endsWith(opening) ? opening : "";
}

function fault({ origin }: ChatTemplate, problem: string): UserError {
  return new UserError(
    "E_CHAT_TEMPLATE",
    `${origin}: what the assistant says can't be told from the rest: ${problem}; use a chat template with {% generation %} tags around it`,
  );
}
