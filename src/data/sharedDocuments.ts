/** Documents that two sources have both, whatever form their files have: found by their draws, made sure of by their tokens. */
import { createHash } from "node:crypto";
import { UserError } from "../base/errors.ts";
import type { SourceTokens } from "./textTokens.ts";
import type { TokenStream } from "./tokenStream.ts";

/** Documents and tokens looked at in one go. */
const blockSize = 1 << 16;

/** What is read of a source to find its documents elsewhere. */
type Documents = { readonly stream: TokenStream } & Pick<SourceTokens, "readDraws">;

/** The draws of all documents in order, some at a time, with the number of the first. */
export function* drawBlocks({ stream, readDraws }: Documents): Generator<readonly [first: number, Uint32Array]> {
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

/**
 * How many documents of a source are also in one of the others. Each document is read once at most, however many are equal or share
 * a draw; 8 bytes of memory for each of its own, and the digests of those whose draw another has.
 */
export function countShared(source: Documents, others: readonly Documents[], eosId: number): number {
  const { stream } = source;
  const draws = source.readDraws(0, stream.documents);
  const byDraw = Uint32Array.from(draws.keys()).sort((a, b) => draws[a]! - draws[b]!);
  // Most draws are none of these: their upper halves tell.
  const upper = new Uint8Array(1 << 16);
  for (const draw of draws) upper[draw >>> 16] = 1;
  const notFound = new Map<number, Map<string, number>>();
  let shared = 0;
  for (const other of others) {
    for (const [first, block] of drawBlocks(other)) {
      for (const [i, draw] of block.entries()) {
        if (upper[draw >>> 16] === 0) continue;
        let contents = notFound.get(draw);
        if (contents === undefined) {
          const own: number[] = [];
          for (let at = firstAtLeast(byDraw, draws, draw); draws[byDraw[at]!] === draw; at++) own.push(byDraw[at]!);
          if (own.length === 0) continue;
          contents = countContents(stream, own, eosId);
          notFound.set(draw, contents);
        }
        if (contents.size === 0) continue;
        const digest = digestOf(other.stream, first + i, eosId);
        shared += contents.get(digest) ?? 0;
        contents.delete(digest);
      }
    }
  }
  return shared;
}

/** How many of the documents have each content, by its digest. */
function countContents(stream: TokenStream, documents: readonly number[], eosId: number): Map<string, number> {
  const counts = new Map<string, number>();
  for (const document of documents) {
    const digest = digestOf(stream, document, eosId);
    counts.set(digest, (counts.get(digest) ?? 0) + 1);
  }
  return counts;
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

/** SHA-256 of a document's ids, of whatever width they are stored in. */
function digestOf(stream: TokenStream, document: number, eosId: number): string {
  const { start, length } = placeOf(stream, document, eosId);
  const digest = createHash("sha256");
  for (let done = 0; done < length; done += blockSize) {
    digest.update(Uint32Array.from(stream.read(start + done, Math.min(blockSize, length - done))));
  }
  return digest.digest("base64");
}

/** Where a document lies, without the token that ends it: the last of a file of tokens may have none. */
function placeOf(stream: TokenStream, document: number, eosId: number) {
  const ends = stream.readEnds(Math.max(0, document - 1), document === 0 ? 1 : 2);
  const start = document === 0 ? 0 : ends[0]!;
  const length = ends.at(-1)! - start;
  const isEnded = length > 0 && stream.read(start + length - 1, 1)[0] === eosId;
  return { start, length: isEnded ? length - 1 : length };
}
