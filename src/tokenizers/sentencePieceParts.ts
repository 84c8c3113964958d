/** SentencePiece's BPE as parts of a tokenizer.json, whose merges follow from the scores of the pieces. */
import type { Json } from "./tokenizerParts.ts";

/** SentencePiece's mark of a space. */
export const spaceMark = "\u2581";

export interface PieceVocabulary {
  readonly vocab: ReadonlyMap<string, number>;
  /** By id: of two pairs that could be joined, the one whose whole has the higher score goes first. */
  readonly scores: ArrayLike<number>;
  readonly unknown: string;
  /** A text gets a space before it. */
  readonly prefix: boolean;
  /** Characters without a piece are spelled by bytes. */
  readonly byteFallback: boolean;
}

/** `normalizer`, `pre_tokenizer`, `decoder` and `model` of the tokenizer.json. */
export function sentencePieceParts({ vocab, scores, unknown, prefix, byteFallback }: PieceVocabulary): Json {
  const replaced = { type: "Replace", pattern: { String: " " }, content: spaceMark };
  const strip = { type: "Strip", content: " ", start: 1, stop: 0 };
  return {
    normalizer: {
      type: "Sequence",
      normalizers: [...(prefix ? [{ type: "Prepend", prepend: spaceMark }] : []), replaced],
    },
    pre_tokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: spaceMark }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(prefix ? [strip] : []),
      ],
    },
    model: bpeJson(vocab, mergesByScore(vocab, scores), {
      unk_token: unknown,
      fuse_unk: true,
      byte_fallback: byteFallback,
    }),
  };
}

/** A `model` of the kind BPE; `rules` says what is other than usual. */
export const bpeJson = (
  vocab: ReadonlyMap<string, number>,
  merges: readonly (readonly string[])[],
  rules: Json,
): Json => ({
  type: "BPE",
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: false,
  byte_fallback: false,
  ...rules,
  vocab: Object.fromEntries(vocab),
  merges,
});

/** Every way to put a piece together from two, the highest score first: the order in which SentencePiece joins them. */
function mergesByScore(vocab: ReadonlyMap<string, number>, scores: ArrayLike<number>): (readonly [string, string])[] {
  const merges: { readonly pair: readonly [string, string]; readonly ids: readonly [number, number, number] }[] = [];
  for (const [piece, id] of vocab) {
    const letters = [...piece];
    for (let cut = 1, at = 0; cut < letters.length; cut++) {
      at += letters[cut - 1]!.length;
      const pair = [piece.slice(0, at), piece.slice(at)] as const;
      const [left, right] = [vocab.get(pair[0]), vocab.get(pair[1])];
      if (left !== undefined && right !== undefined) merges.push({ pair, ids: [id, left, right] });
    }
  }
  const order = ({ ids: [a, aLeft, aRight] }: (typeof merges)[0], { ids: [b, bLeft, bRight] }: (typeof merges)[0]) =>
    scores[b]! - scores[a]! || a - b || aLeft - bLeft || aRight - bRight;
  return merges.sort(order).map(({ pair }) => pair);
}
