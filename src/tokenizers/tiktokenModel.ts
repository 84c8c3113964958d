/**
 * Meta's tokenizer.model for Llama 3: the rank file of tiktoken, a line a token ("BASE64 RANK"). The cuts and the 256 control
 * tokens are not in the file; they are Llama 3's. Two neighbours merge where what they spell is a token, the lower its rank the
 * earlier.
 */
import { controlToken } from "./addedTokens.ts";
import type { BpeModel } from "./bpeTokenizer.ts";
import { defaultSplitPattern } from "./splitPattern.ts";
import { type Refuse, refuseLongTokens, show } from "./tokenizerParts.ts";

/** Llama 3's ordinary tokens. */
const numRanks = 128_000;
const numControl = 256;

/** The control tokens from 128,000 up, as Llama 3.1 and later name them; the rest are reserved. */
const named = [
  "<|begin_of_text|>",
  "<|end_of_text|>",
  "<|reserved_special_token_0|>",
  "<|reserved_special_token_1|>",
  "<|finetune_right_pad_id|>",
  "<|step_id|>",
  "<|start_header_id|>",
  "<|end_header_id|>",
  "<|eom_id|>",
  "<|eot_id|>",
  "<|python_tag|>",
  "<|image|>",
];
const reserved = Array.from({ length: numControl - named.length }, (_, i) => `<|reserved_special_token_${i + 2}|>`);

/** The names that tokenizer_config.json would give. */
export const tiktokenConfig = {
  tokenizer_class: "PreTrainedTokenizerFast",
  bos_token: named[0],
  eos_token: named[1],
  pad_token: named[4],
  clean_up_tokenization_spaces: false,
};

const rankLine = /^([A-Za-z0-9+/]+={0,2}) (\d+)$/;

/** Whether a file that begins so is one of ranks. */
export function isRankFile(beginning: string): boolean {
  const [first] = beginning.split("\n", 1);
  return rankLine.test(first!.trimEnd());
}

/** @throws UserError through `refuse` naming the line that is malformed, or where it is not Llama 3's vocabulary */
export function readRankFile(text: string, refuse: Refuse): BpeModel {
  const lines = text.trimEnd().split("\n");
  if (lines.length !== numRanks) {
    return refuse(
      `${lines.length} ranks; Llama 3's file has ${numRanks}, and a file of ranks does not say how another tokenizer cuts text: take its tokenizer.json`,
    );
  }
  const tokens: Uint8Array[] = [];
  const ids = new Map<string, number>();
  lines.forEach((line, i) => {
    const [, base64, rank] =
      rankLine.exec(line.trimEnd()) ?? refuse(`line ${i + 1} is ${show(line)}, not "BASE64 RANK"`);
    if (Number(rank) !== i) refuse(`line ${i + 1} has the rank ${rank}; ranks count from 0`);
    const bytes = Buffer.from(base64!, "base64");
    const spelled = bytes.toString("latin1");
    if (ids.has(spelled)) refuse(`line ${i + 1} is the token of line ${ids.get(spelled)! + 1} again`);
    ids.set(spelled, i);
    tokens.push(bytes);
  });
  refuseLongTokens(ids.keys(), refuse);
  return {
    tokens: [...tokens, ...Array.from({ length: numControl }, () => undefined)],
    merges: mergesOfRanks([...ids.keys()], ids),
    added: [...named, ...reserved].map((content, i) => controlToken(numRanks + i, content)),
    eosId: numRanks + named.indexOf("<|end_of_text|>"),
    splitPatterns: [defaultSplitPattern],
    prefixSpace: false,
    ignoreMerges: true,
    normalization: "none",
    frame: { before: [numRanks], after: [] },
  };
}

/** Every way to make a token of two, by the token's rank and then by theirs: the order of Hugging Face's conversion. */
function mergesOfRanks(spellings: readonly string[], ids: ReadonlyMap<string, number>): BpeModel["merges"] {
  return spellings.flatMap((spelled, merged) => {
    const pairs: BpeModel["merges"][number][] = [];
    for (let cut = 1; cut < spelled.length; cut++) {
      const left = ids.get(spelled.slice(0, cut));
      const right = left === undefined ? undefined : ids.get(spelled.slice(cut));
      if (right !== undefined) pairs.push({ left: left!, right, merged });
    }
    return pairs.sort((a, b) => a.left - b.left || a.right - b.right);
  });
}
