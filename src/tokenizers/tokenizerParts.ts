/** What every tokenizer.json has, whatever its kind: a model, added tokens, and one of them that ends a document. */
import { UserError } from "../base/errors.ts";
import type { AddedToken } from "./addedTokens.ts";

export type Json = { readonly [key: string]: unknown };

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export type Refuse = (problem: string) => never;

/** Refuses `path` with a sentence. */
export const refusing =
  (path: string): Refuse =>
  (problem) => {
    throw new UserError("E_TOKENIZER", `${path}: ${problem}`);
  };

/** A value for a message. */
export function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 120 ? `${text.slice(0, 117)}…` : text;
}

const maxVocab = 2 ** 21;

/** Of a token whose merges are found by cutting it everywhere, in time by its length squared. Vocabularies have 16 to 256. */
const longestCut = 1024;

/** @throws UserError through `refuse` where a token is longer than merges are looked for in */
export function refuseLongTokens(tokens: Iterable<string>, refuse: Refuse): void {
  for (const token of tokens) {
    if (token.length > longestCut)
      refuse(`the token ${show(token)} has ${token.length} characters, and may have ${longestCut}`);
  }
}

/** `id`, if it can be one. @throws UserError through `refuse` */
export function checkedId(id: unknown, token: unknown, refuse: Refuse): number {
  return typeof id === "number" && Number.isInteger(id) && id >= 0 && id < maxVocab
    ? id
    : refuse(`token ${show(token)} has the id ${show(id)}; ids are integers from 0 to ${maxVocab - 1}`);
}

/** A file's model part. */
export function modelOf(file: unknown, refuse: Refuse): { readonly file: Json; readonly model: Json } {
  if (!isObject(file) || !isObject(file.model)) return refuse("not a tokenizer.json (an object with a `model`)");
  if (!isObject(file.model.vocab) && !Array.isArray(file.model.vocab)) return refuse("model.vocab is missing");
  return { file, model: file.model };
}

export interface AddedTokens {
  readonly added: readonly AddedToken[];
  readonly eosId: number;
}

/** The end-of-document token of the common families, where no tokenizer_config.json names it. */
const usualEnds = ["<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>", "<|im_end|>", "[SEP]"];

/** @param eosToken spelling of the end-of-document token; default: the usual ones. */
export function readAddedTokens(file: Json, refuse: Refuse, eosToken?: string): AddedTokens {
  const added = list(file.added_tokens).map((entry): AddedToken => {
    if (!isObject(entry) || typeof entry.content !== "string" || entry.content === "") {
      return refuse("an added_tokens entry without content");
    }
    const special = entry.special === true;
    return {
      id: checkedId(entry.id, entry.content, refuse),
      content: entry.content,
      special,
      normalized: typeof entry.normalized === "boolean" ? entry.normalized : !special,
      lstrip: entry.lstrip === true,
      rstrip: entry.rstrip === true,
      singleWord: entry.single_word === true,
    };
  });
  const ids = new Map(added.map(({ content, id }) => [content, id]));
  const spelling = eosToken ?? usualEnds.find((end) => ids.has(end));
  const eosId = spelling === undefined ? undefined : ids.get(spelling);
  if (eosId === undefined) {
    return refuse(
      `no end-of-document token: ${spelling === undefined ? `none of ${usualEnds.join(" ")}` : show(spelling)} is among its added tokens; name it as "eos_token" in tokenizer_config.json beside it`,
    );
  }
  // What ends a document is a control token, whatever the file says: a text must not end itself.
  return { added: added.map((token) => (token.id === eosId ? { ...token, special: true } : token)), eosId };
}

/** A normalizer's or decoder's steps, those of sequences within it too. */
export function stepsOf(step: unknown, key: "normalizers" | "decoders"): readonly Json[] {
  if (!isObject(step)) return [];
  return step.type === "Sequence" ? list(step[key]).flatMap((inner) => stepsOf(inner, key)) : [step];
}
