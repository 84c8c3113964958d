/** Whether the parts that readText.ts cuts a long text into have the tokens of the whole: found by trying it. */
import type { AddedToken } from "./addedTokens.ts";

/** A letter, then a place to cut, then a space before a letter. */
const place = /(?<=[a-zA-Z])(?= [a-zA-Z])/g;
/** Such places among words of all sorts. */
const sample = "the Quick brown fox,  12 men's a b\nI AM X so z x-y 7 Q w é e ... Go on";

/**
 * Whether pieces, across which no merge goes, end at each place.
 * @param pieces of a text, or of one that goes on from another
 */
export function cutsAtSpaces(
  pieces: (text: string, continues: boolean) => readonly unknown[],
  added: readonly AddedToken[],
): boolean {
  const crosses = added.some(({ content, special, rstrip }) => {
    return !special && (content.search(place) >= 0 || (rstrip && /[a-zA-Z]$/.test(content)));
  });
  if (crosses) return false;
  const whole = JSON.stringify(pieces(sample, false));
  return [...sample.matchAll(place)].every(({ index }) => {
    return JSON.stringify([...pieces(sample.slice(0, index), false), ...pieces(sample.slice(index), true)]) === whole;
  });
}
