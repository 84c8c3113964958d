/** Documents that two sources have both, whatever form their files have: found by their draws, made sure of by their tokens. */
import { UserError } from "../base/errors.ts";
import type { SourceTokens } from "./textTokens.ts";
import type { TokenStream } from "./tokenStream.ts";

/** Documents and tokens looked at in one go. */
const blockSize = 1 << 16;

/** The draws of all documents in order, some at a time, with the number of the first. */
export function* drawBlocks({ stream, readDraws }: SourceTokens): Generator<readonly [first: number, Uint32Array]> {
  for (let first = 0; first < stream.documents; first += blockSize) {
    yield [first, readDraws(first, Math.min(blockSize, stream.documents - first))];
  }
}

/**
 * Tells how many documents of validation data are trained on too, whatever form either has.
 * @throws UserError where all are
 */
export function tellShared(
  { name, tokens }: { readonly name: string; readonly tokens: SourceTokens },
  training: readonly SourceTokens[],
  { eosId, say }: { readonly eosId: number; readonly say: (text: string) => void },
): void {
  const { documents } = tokens.stream;
  const shared = countShared(tokens, training, eosId);
  if (shared === 0) return;
  if (shared < documents) {
    say(`note: ${shared} of the ${documents} documents of ${name} are trained on too: of them validation says nothing`);
    return;
  }
  throw new UserError(
    "E_SPLIT_OVERLAP",
    `eval_dataset_path: every document of ${name} (${documents}) is trained on too, if in another form: validation on training text says nothing. Remove them from one of the two, or use validation_fraction instead`,
  );
}

/** How many documents of a source are also in one of the others; 9 bytes of memory for each of its own. */
function countShared(source: SourceTokens, others: readonly SourceTokens[], eosId: number): number {
  const { stream } = source;
  const draws = source.readDraws(0, stream.documents);
  const byDraw = Uint32Array.from(draws.keys()).sort((a, b) => draws[a]! - draws[b]!);
  // Most draws are none of these: their upper halves tell.
  const upper = new Uint8Array(1 << 16);
  for (const draw of draws) upper[draw >>> 16] = 1;
  const isShared = new Uint8Array(stream.documents);
  for (const other of others) {
    for (const [first, block] of drawBlocks(other)) {
      for (const [i, draw] of block.entries()) {
        if (upper[draw >>> 16] === 0) continue;
        for (let at = firstAtLeast(byDraw, draws, draw); draws[byDraw[at]!] === draw; at++) {
          const document = byDraw[at]!;
          if (isShared[document] === 0 && sameDocument(stream, document, other.stream, first + i, eosId))
            isShared[document] = 1;
        }
      }
    }
  }
  return isShared.reduce((sum, shared) => sum + shared, 0);
}

/** Place in `order` of the first document whose draw is `least` or more. */
function firstAtLeast(order: Uint32Array, draws: Uint32Array, least: number): number {
  let [low, high] = [0, order.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (draws[order[middle]!]! < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

function sameDocument(a: TokenStream, i: number, b: TokenStream, j: number, eosId: number): boolean {
  const [one, other] = [placeOf(a, i, eosId), placeOf(b, j, eosId)];
  if (one.length !== other.length) return false;
  for (let done = 0; done < one.length; done += blockSize) {
    const count = Math.min(blockSize, one.length - done);
    const tokens = b.read(other.start + done, count);
    if (!a.read(one.start + done, count).every((id, k) => id === tokens[k])) return false;
  }
  return true;
}

/** Where a document lies, without the token that ends it: the last of a file of tokens may have none. */
function placeOf(stream: TokenStream, document: number, eosId: number) {
  const ends = stream.readEnds(Math.max(0, document - 1), document === 0 ? 1 : 2);
  const start = document === 0 ? 0 : ends[0]!;
  const length = ends.at(-1)! - start;
  const isEnded = length > 0 && stream.read(start + length - 1, 1)[0] === eosId;
  return { start, length: isEnded ? length - 1 : length };
}
