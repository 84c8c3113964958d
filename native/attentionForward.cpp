// Causal attention, forward: blocks of query rows against blocks of keys, the softmax kept up to date on the way
// (Milakov & Gimelshein 2018; Dao 2023). Scores of one pair of blocks exist at a time, in the first-level cache.
#include "attention.h"

namespace HALFBYTE_ISA {
namespace {

constexpr long rowBlock = 32, keyBlock = 256;
constexpr float infinity = __builtin_inff();

template <class E>
struct Forward {
  typedef typename E::Element Element;
  const AttentionForward& call;
  Layout layout;
  float scale;
  /** Of all heads: keys by columns, a block of keys after the other, and values by rows. */
  uint32_t *keys, *values;
  /** Words of a head in either. */
  long headWords;

  bool pack(long head) const {
    const auto& [time, keyHeads, group, dim] = layout;
    const Rows<E> k{(const Element*)call.k + layout.key(head), layout.keyStride()};
    const Rows<E> v{(const Element*)call.v + layout.key(head), layout.keyStride()};
    for (long j = 0; j < time; j += keyBlock)
      packColumns<E>(keys + head * headWords + j * dim / E::packed, {k.row(j), k.stride}, dim, atMost(keyBlock, time - j),
                     keyBlock);
    packRows<E>(values + head * headWords, v, dim, time, roundUp(time, keyBlock));
    return true;
  }

  /** The rows `from` … of a query head, rowBlock of them. `cut`: not all see from the first key on. */
  template <bool cut>
  bool attend(long head, long g, long from) const {
    const auto& [time, keyHeads, group, dim] = layout;
    char* memory = (char*)scratch(rowBlock * (dim * 8 + keyBlock * 8 + 64));
    if (!memory) return false;
    float* sums = (float*)memory;
    float* scores = sums + rowBlock * dim;
    Element* weights = (Element*)(scores + rowBlock * keyBlock);
    Element* q = weights + rowBlock * keyBlock;
    float highest[rowBlock], total[rowBlock], rescale[rowBlock];
    const long rows = atMost(rowBlock, time - from);
    const long inRow = dim / E::packed;
    copyRows<E>(q, {(const Element*)call.q + layout.query(head, g) + from * layout.queryStride(), layout.queryStride()},
                dim, rows, rowBlock);
    for (long m = 0; m < rowBlock; m++) highest[m] = -infinity, total[m] = 0;
    const Starts<rowBlock> starts(cut ? call.starts + head / keyHeads * time : nullptr, from, rows);
    const long begin = starts.lowest / keyBlock * keyBlock;
    for (long j = begin; j < from + rows; j += keyBlock) {
      const uint32_t* k = keys + head * headWords + j * inRow;
      const uint32_t* v = values + head * headWords + j / E::packed * dim;
      // Beyond the last row's position nothing is seen.
      const long seen = atMost(keyBlock, from + rows - j);
      const long columns = roundUp(seen, tileVectors * lanes);
      // Nor before the lowest start; whole tiles of columns are left out.
      const long left = atLeast(starts.lowest - j, 0) / (tileVectors * lanes) * (tileVectors * lanes);
      for (long n = left; n < columns; n += tileVectors * lanes)
        for (long m = 0; m < rowBlock; m += tileRows)
          updateTile<E, tileRows, tileVectors>(scores + m * keyBlock + n, keyBlock, nullptr, true,
                                               {(const uint32_t*)q + m * inRow, inRow, 1}, {k + n, keyBlock}, inRow);
      for (long m = 0; m < rowBlock; m++)
        softmaxRow<cut>(scores + m * keyBlock, weights + m * keyBlock, left, atLeast(starts.of[m] - j, 0),
                        atMost(columns, from + m + 1 - j), columns, highest[m], total[m], rescale[m]);
      for (long m = 0; m < rowBlock; m += tileRows) {
        const long words = atMost(columns, roundUp(atMost(seen, from + m + tileRows - j), E::packed)) / E::packed;
        const long skipped = left / E::packed;
        updateRows<E, tileRows>(sums + m * dim, dim, dim, rescale + m, j == begin,
                                {(const uint32_t*)weights + m * keyBlock / E::packed + skipped, keyBlock / E::packed, 1},
                                {v + skipped * dim, dim}, words - skipped);
      }
    }
    Element* out = (Element*)call.out + layout.query(head, g) + from * layout.queryStride();
    for (long m = 0; m < rows; m++) {
      for (long h = 0; h < dim; h += lanes)
        E::store(out + m * layout.queryStride() + h, div(load(sums + m * dim + h), fill(total[m])));
      call.logSumExp[(head * time + from + m) * group + g] = highest[m] + __builtin_logf(total[m]);
    }
    return true;
  }

  /**
   * Weights of one row relative to the highest score so far, and what earlier sums are to be multiplied by. Columns `first` up to
   * `visible` are seen, if `cut`; else from 0 on. Weights are written from column `left` on.
   */
  template <bool cut>
  void softmaxRow(const float* scores, Element* weights, long left, long first, long visible, long columns, float& highest,
                  float& total, float& rescale) const {
    const long whole = visible / lanes * lanes;
    Vector most = fill(-infinity);
    for (long n = cut ? roundUp(first, lanes) : 0; n < whole; n += lanes) most = larger(load(scores + n), most);
    // The vectors at the ends.
    const auto end = [&](long n) {
      const Vector seen = firstLanes(load(scores + n), visible - n, fill(-infinity));
      most = larger(cut ? firstLanes(fill(-infinity), first - n, seen) : seen, most);
    };
    if (cut && first % lanes > 0 && first < visible) end(first / lanes * lanes);
    if (whole < visible && !(cut && first > whole)) end(whole);
    const float before = highest;
    const float here = largestOf(most) * scale;
    highest = here > before ? here : before;
    rescale = before == highest ? 1 : before == -infinity ? 0 : __builtin_expf(before - highest);
    // The product is rounded as the highest is: else the weight of the highest is not 1 where scores are large.
    const auto weightsAt = [&](long n) { return exponential(sub(mul(load(scores + n), fill(scale)), fill(highest))); };
    Vector sum = zero();
    const auto keep = [&](long n, Vector weight) {
      sum = add(sum, weight);
      E::store(weights + n, weight);
    };
    long n = cut ? left : 0;
    if (cut)
      for (; n < first && n < columns; n += lanes)
        keep(n, n + lanes > first ? firstLanes(zero(), first - n, firstLanes(weightsAt(n), visible - n, zero())) : zero());
    for (; n < whole; n += lanes) keep(n, weightsAt(n));
    for (; n < columns; n += lanes) keep(n, n < visible ? firstLanes(weightsAt(n), visible - n, zero()) : zero());
    total = total * rescale + sumOf(sum);
  }
};

template <class E>
bool forward(const AttentionForward& call, Threads* threads) {
  const auto& [type, batch, time, keyHeads, group, dim] = call.shape;
  const long heads = batch * keyHeads;
  const long headWords = roundUp(time, keyBlock) * dim / E::packed;
  uint32_t* packed = (uint32_t*)allocate(2 * heads * headWords * 4);
  if (!packed) return false;
  Forward<E> job{call, {time, keyHeads, group, dim}, (float)(1 / __builtin_sqrt((double)dim)), packed, packed + heads * headWords,
                 headWords};
  parallelFor(threads, heads, [](void* job, long head) { return ((Forward<E>*)job)->pack(head); }, &job);
  const long blocks = (time + rowBlock - 1) / rowBlock;
  const bool good = parallelFor(
      threads, heads * group * blocks,
      [](void* context, long i) {
        const auto& job = *(Forward<E>*)context;
        const auto& [time, keyHeads, group, dim] = job.layout;
        const long blocks = (time + rowBlock - 1) / rowBlock;
        const long head = i / blocks / group, g = i / blocks % group, from = i % blocks * rowBlock;
        return job.call.starts ? job.template attend<true>(head, g, from) : job.template attend<false>(head, g, from);
      },
      &job);
  release(packed);
  return good;
}

}  // namespace

bool attentionForward(const AttentionForward& call, Threads* threads) {
  return call.shape.type == Type::bf16 ? forward<Bf16>(call, threads) : forward<F32>(call, threads);
}

}  // namespace HALFBYTE_ISA
