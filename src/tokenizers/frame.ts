/** The control tokens that a tokenizer.json's post-processor puts around a text: `<|begin_of_text|>` before it, `[SEP]` behind it. */
import type { AddedToken } from "./addedTokens.ts";
import { checkedId, isObject, type Json, list, type Refuse, show } from "./tokenizerParts.ts";

/** Ids that stand around a text. */
export interface Frame {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

export const noFrame: Frame = { before: [], after: [] };

export const isFramed = ({ before, after }: Frame): boolean => before.length + after.length > 0;

/** `ids` with the frame around them. */
export function framedIds({ before, after }: Frame, ids: Int32Array): Int32Array {
  if (before.length + after.length === 0) return ids;
  const framed = new Int32Array(before.length + ids.length + after.length);
  framed.set(before);
  framed.set(ids, before.length);
  framed.set(after, before.length + ids.length);
  return framed;
}

/** @throws UserError through `refuse` where a step is malformed, or puts there what is no added token */
export function readFrame(postProcessor: unknown, added: readonly AddedToken[], refuse: Refuse): Frame {
  const frame = readSteps(postProcessor, refuse);
  const known = new Set(added.map(({ id }) => id));
  const lost = [...frame.before, ...frame.after].find((id) => !known.has(id));
  return lost === undefined ? frame : refuse(`post_processor puts the id ${lost} there, which is no added token's`);
}

function readSteps(postProcessor: unknown, refuse: Refuse): Frame {
  if (!isObject(postProcessor)) return noFrame;
  switch (postProcessor.type) {
    case "Sequence":
      return list(postProcessor.processors)
        .map((step) => readSteps(step, refuse))
        .reduce(
          (inner, outer) => ({
            before: [...outer.before, ...inner.before],
            after: [...inner.after, ...outer.after],
          }),
          noFrame,
        );
    case "TemplateProcessing":
      return readTemplate(postProcessor, refuse);
    case "BertProcessing":
    case "RobertaProcessing": {
      const id = (pair: unknown) => checkedId(list(pair)[1], list(pair)[0], refuse);
      return { before: [id(postProcessor.cls)], after: [id(postProcessor.sep)] };
    }
    case "ByteLevel":
      return noFrame;
    default:
      return refuse(`post_processor ${show(postProcessor.type)} is not supported`);
  }
}

/** `single`: special tokens around "A", the text. */
function readTemplate(step: Json, refuse: Refuse): Frame {
  const pieces = list(step.single);
  const at = pieces.findIndex((piece) => isObject(piece) && "Sequence" in piece);
  if (at < 0) return refuse("post_processor.single holds no text");
  const known = isObject(step.special_tokens) ? step.special_tokens : {};
  const idsOf = (piece: unknown): readonly number[] => {
    const name = isObject(piece) && isObject(piece.SpecialToken) ? piece.SpecialToken.id : undefined;
    const token = typeof name === "string" && Object.hasOwn(known, name) ? known[name] : undefined;
    if (!isObject(token)) return refuse(`post_processor.single uses ${show(piece)}, which its special_tokens lack`);
    return list(token.ids).map((id) => checkedId(id, name, refuse));
  };
  return { before: pieces.slice(0, at).flatMap(idsOf), after: pieces.slice(at + 1).flatMap(idsOf) };
}

/** The post-processor that `readFrame` reads as `frame`; null for none. @param spelling of an id that the frame uses */
export function frameProcessor({ before, after }: Frame, spelling: (id: number) => string): Json | null {
  if (before.length + after.length === 0) return null;
  const special = (type_id: number) => (id: number) => ({ SpecialToken: { id: spelling(id), type_id } });
  const around = (name: string, type_id: number) => [
    ...before.map(special(type_id)),
    { Sequence: { id: name, type_id } },
    ...after.map(special(type_id)),
  ];
  const entry = (id: number) => [spelling(id), { id: spelling(id), ids: [id], tokens: [spelling(id)] }];
  return {
    type: "TemplateProcessing",
    single: around("A", 0),
    pair: [...around("A", 0), ...around("B", 1)],
    special_tokens: Object.fromEntries([...before, ...after].map(entry)),
  };
}
