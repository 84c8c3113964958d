/** XXH64 with seed 0, the hash by which Zstandard checks a frame: 64-bit words are pairs of 32-bit integers, high and low. */

/** The five primes of XXH64: high and low words. */
const [p1h, p1l, p2h, p2l] = [0x9e3779b1, 0x85ebca87, 0xc2b2ae3d, 0x27d4eb4f];
const [p3h, p3l, p4h, p4l] = [0x165667b1, 0x9e3779f9, 0x85ebca77, 0xc2b2ae63];
const [p5h, p5l] = [0x27d4eb2f, 0x165667c5];

const stripe = 32;

/** A 64-bit word that is written anew by every operation: nothing is allocated while bytes are hashed. */
class Word {
  high = 0;
  low = 0;

  set(high: number, low: number): this {
    this.high = high | 0;
    this.low = low | 0;
    return this;
  }

  add(high: number, low: number): this {
    const sum = (this.low >>> 0) + (low >>> 0);
    this.high = (this.high + high + (sum > 0xffffffff ? 1 : 0)) | 0;
    this.low = sum | 0;
    return this;
  }

  xor(high: number, low: number): this {
    this.high ^= high;
    this.low ^= low;
    return this;
  }

  multiply(high: number, low: number): this {
    const [a0, a1, b0, b1] = [this.low & 0xffff, this.low >>> 16, low & 0xffff, low >>> 16];
    const middle = (Math.imul(a1, b0) >>> 0) + (Math.imul(a0, b0) >>> 16);
    const carry = (Math.imul(a0, b1) >>> 0) + (middle & 0xffff);
    const top = Math.imul(a1, b1) + Math.floor(middle / 65536) + Math.floor(carry / 65536);
    this.high = (top + Math.imul(this.high, low) + Math.imul(this.low, high)) | 0;
    this.low = Math.imul(this.low, low);
    return this;
  }

  /** @param bits 1 to 31 */
  rotate(bits: number): this {
    const { high, low } = this;
    this.high = (high << bits) | (low >>> (32 - bits));
    this.low = (low << bits) | (high >>> (32 - bits));
    return this;
  }

  /** Exclusive or with itself, shifted right. */
  fold(bits: number): this {
    const { high, low } = this;
    if (bits >= 32) return this.xor(0, high >>> (bits - 32));
    return this.xor(high >>> bits, (low >>> bits) | (high << (32 - bits)));
  }
}

export interface XxHash64 {
  update(bytes: Uint8Array): void;
  /** Of all bytes until now: the high and the low word, unsigned. */
  digest(): { readonly high: number; readonly low: number };
}

export function xxHash64(): XxHash64 {
  const lanes = [
    new Word().set(p1h, p1l).add(p2h, p2l),
    new Word().set(p2h, p2l),
    new Word(),
    new Word().add(~p1h, ~p1l).add(0, 1),
  ];
  const pending = new Uint8Array(stripe);
  let [held, length] = [0, 0];

  const wordAt = (bytes: Uint8Array, at: number) =>
    bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
  const round = (lane: Word, high: number, low: number) => mixIn(lane, high, low).rotate(31).multiply(p1h, p1l);
  const input = new Word();
  const mixIn = (lane: Word, high: number, low: number) => {
    input.set(high, low).multiply(p2h, p2l);
    return lane.add(input.high, input.low);
  };
  const readStripe = (bytes: Uint8Array, at: number) => {
    for (let i = 0; i < 4; i++) round(lanes[i]!, wordAt(bytes, at + 8 * i + 4), wordAt(bytes, at + 8 * i));
  };
  const product = (high: number, low: number) => round(new Word(), high, low);

  return {
    update(bytes) {
      length += bytes.length;
      let at = 0;
      if (held > 0) {
        at = Math.min(bytes.length, stripe - held);
        pending.set(bytes.subarray(0, at), held);
        held += at;
        if (held < stripe) return;
        readStripe(pending, 0);
      }
      for (; at + stripe <= bytes.length; at += stripe) readStripe(bytes, at);
      held = bytes.length - at;
      pending.set(bytes.subarray(at));
    },
    digest() {
      const hash = new Word();
      if (length < stripe) hash.set(p5h, p5l);
      else {
        for (const [i, bits] of [1, 7, 12, 18].entries()) {
          const lane = new Word().set(lanes[i]!.high, lanes[i]!.low).rotate(bits);
          hash.add(lane.high, lane.low);
        }
        for (const { high, low } of lanes) {
          const lane = product(high, low);
          hash.xor(lane.high, lane.low).multiply(p1h, p1l).add(p4h, p4l);
        }
      }
      hash.add(Math.floor(length / 2 ** 32), length);
      let at = 0;
      for (; at + 8 <= held; at += 8) {
        const word = product(wordAt(pending, at + 4), wordAt(pending, at));
        hash.xor(word.high, word.low).rotate(27).multiply(p1h, p1l).add(p4h, p4l);
      }
      if (at + 4 <= held) {
        const word = new Word().set(0, wordAt(pending, at)).multiply(p1h, p1l);
        hash.xor(word.high, word.low).rotate(23).multiply(p2h, p2l).add(p3h, p3l);
        at += 4;
      }
      for (; at < held; at++) {
        const word = new Word().set(0, pending[at]!).multiply(p5h, p5l);
        hash.xor(word.high, word.low).rotate(11).multiply(p1h, p1l);
      }
      hash.fold(33).multiply(p2h, p2l).fold(29).multiply(p3h, p3l).fold(32);
      return { high: hash.high >>> 0, low: hash.low >>> 0 };
    },
  };
}
