// Causal attention, backward (after FlashAttention-2, Dao 2023): weights are computed again from log-sum-exps, block by block.
// A thread takes a key head with all query heads of its group, so that sums over the group need no other thread.
#include "attention.h"

namespace HALFBYTE_ISA {
namespace {

constexpr long rowBlock = 64, keyBlock = 64;
static_assert(rowBlock == keyBlock, "one block on the diagonal");

/** Keeps two rows' values of one column vector: as words for products along rows, and along columns. */
template <class E>
INLINE void storeTwo(uint32_t* byRows, long stride, typename E::Element* low, typename E::Element* high, Vector a, Vector b);

template <>
INLINE void storeTwo<Bf16>(uint32_t* byRows, long, uint16_t* low, uint16_t* high, Vector a, Vector b) {
  if (low) Bf16::store(low, a), Bf16::store(high, b);
  storeWords(byRows, pairsOf(a, b));
}

template <>
INLINE void storeTwo<F32>(uint32_t* byRows, long stride, float* low, float* high, Vector a, Vector b) {
  if (low) store(low, a), store(high, b);
  store((float*)byRows, a);
  store((float*)byRows + stride, b);
}

/** What storeTwo kept of its two rows. */
template <class E>
INLINE void loadTwo(const uint32_t* byRows, long stride, Vector& a, Vector& b);

template <>
INLINE void loadTwo<Bf16>(const uint32_t* byRows, long, Vector& a, Vector& b) {
  const Words words = loadWords(byRows);
  a = lowHalves(words), b = highHalves(words);
}

template <>
INLINE void loadTwo<F32>(const uint32_t* byRows, long stride, Vector& a, Vector& b) {
  a = load((const float*)byRows), b = load((const float*)byRows + stride);
}

template <class E>
struct Backward {
  typedef typename E::Element Element;
  const AttentionBackward& call;
  Layout layout;
  float scale;
  /** Memory of a task, whose parts `attend` names, for each thread. */
  unsigned long bytes;

  static unsigned long bytesFor(long time, long dim) {
    const long all = roundUp(time, keyBlock), wordBytes = 4;
    const long perKey = dim / E::packed * wordBytes;
    return all * (3 * perKey + 2 * dim * wordBytes) +
           rowBlock * (4 * perKey + dim * wordBytes + 3 * keyBlock * wordBytes + 2 * wordBytes);
  }

  bool attend(long head) const {
    const auto& [time, keyHeads, group, dim] = layout;
    const long all = roundUp(time, keyBlock), inRow = dim / E::packed;
    uint32_t* next = (uint32_t*)scratch(bytes);
    if (!next) return false;
    const auto take = [&](long words) {
      uint32_t* taken = next;
      next += words;
      return taken;
    };
    // Of all keys: columns of K and of V, rows of K, and the sums.
    uint32_t* keyColumns = take(all * inRow);
    uint32_t* valueColumns = take(all * inRow);
    uint32_t* keyRows = take(all * inRow);
    float* dKey = (float*)take(all * dim);
    float* dValue = (float*)take(all * dim);
    const Rows<E> k{(const Element*)call.k + layout.key(head), layout.keyStride()};
    const Rows<E> v{(const Element*)call.v + layout.key(head), layout.keyStride()};
    for (long j = 0; j < time; j += keyBlock) {
      const long count = atMost(keyBlock, time - j);
      packColumns<E>(keyColumns + j * inRow, {k.row(j), k.stride}, dim, count, keyBlock);
      packColumns<E>(valueColumns + j * inRow, {v.row(j), v.stride}, dim, count, keyBlock);
    }
    packRows<E>(keyRows, k, dim, time, all);
    for (long i = 0; i < all * dim; i += lanes) store(dKey + i, zero()), store(dValue + i, zero());
    Block block{};
    block.q = (Element*)take(rowBlock * inRow);
    block.ct = (Element*)take(rowBlock * inRow);
    block.queryRows = take(rowBlock * inRow);
    block.ctRows = take(rowBlock * inRow);
    block.dQuery = (float*)take(rowBlock * dim);
    block.weights = take(rowBlock * keyBlock / E::packed);
    block.dScores = take(rowBlock * keyBlock / E::packed);
    block.dScoreRows = (Element*)take(rowBlock * keyBlock / E::packed);
    block.logSumExp = (float*)take(rowBlock);
    block.delta = (float*)take(rowBlock);
    for (long g = 0; g < group; g++)
      for (long from = 0; from < time; from += rowBlock) {
        readBlock(block, head, g, from);
        const Starts<rowBlock> starts(call.starts ? call.starts + head / keyHeads * time : nullptr, from,
                                      atMost(rowBlock, time - from));
        const long begin = starts.lowest / keyBlock * keyBlock;
        for (long j = begin; j <= from; j += keyBlock) {
          const Right columns{keyColumns + j * inRow, keyBlock}, values{valueColumns + j * inRow, keyBlock};
          if (starts.highest > j) {
            if (j == from) scoreBlock<true, true>(block, columns, values, starts.of, j);
            else scoreBlock<false, true>(block, columns, values, starts.of, j);
          } else {
            if (j == from) scoreBlock<true, false>(block, columns, values, nullptr, j);
            else scoreBlock<false, false>(block, columns, values, nullptr, j);
          }
          for (long n = 0; n < keyBlock; n += tileRows) {
            // On the diagonal, earlier rows don't see these keys.
            const long first = j == from ? n / E::packed : 0, words = rowBlock / E::packed - first;
            const auto left = [&](const uint32_t* x) { return Left{x + first * keyBlock + n, 1, keyBlock}; };
            updateRows<E, tileRows>(dValue + (j + n) * dim, dim, dim, nullptr, false, left(block.weights),
                                    {block.ctRows + first * dim, dim}, words);
            updateRows<E, tileRows>(dKey + (j + n) * dim, dim, dim, nullptr, false, left(block.dScores),
                                    {block.queryRows + first * dim, dim}, words);
          }
          for (long m = 0; m < rowBlock; m += tileRows) {
            const long words = (j == from ? m + tileRows : keyBlock) / E::packed;
            updateRows<E, tileRows>(block.dQuery + m * dim, dim, dim, nullptr, j == begin,
                                    {(const uint32_t*)block.dScoreRows + m * keyBlock / E::packed, keyBlock / E::packed, 1},
                                    {keyRows + j * inRow, dim}, words);
          }
        }
        Element* dq = (Element*)call.dq + layout.query(head, g) + from * layout.queryStride();
        writeRows(dq, layout.queryStride(), block.dQuery, atMost(rowBlock, time - from), scale);
      }
    writeRows((Element*)call.dk + layout.key(head), layout.keyStride(), dKey, time, scale);
    writeRows((Element*)call.dv + layout.key(head), layout.keyStride(), dValue, time, 1);
    return true;
  }

  /** A block of query rows and what is computed of it against a block of keys. */
  struct Block {
    /** Rows one after the other, then by rows for products along them. */
    Element *q, *ct;
    uint32_t *queryRows, *ctRows;
    float* dQuery;
    /** By rows. */
    uint32_t *weights, *dScores;
    /** Along keys. */
    Element* dScoreRows;
    float *logSumExp, *delta;
  };

  void readBlock(Block& block, long head, long g, long from) const {
    const auto& [time, keyHeads, group, dim] = layout;
    const long rows = atMost(rowBlock, time - from), stride = layout.queryStride();
    const long at = layout.query(head, g) + from * stride;
    const Rows<E> q{(const Element*)call.q + at, stride}, ct{(const Element*)call.ct + at, stride};
    const Rows<E> out{(const Element*)call.out + at, stride};
    copyRows<E>(block.q, q, dim, rows, rowBlock);
    copyRows<E>(block.ct, ct, dim, rows, rowBlock);
    packRows<E>(block.queryRows, q, dim, rows, rowBlock);
    packRows<E>(block.ctRows, ct, dim, rows, rowBlock);
    for (long m = 0; m < rowBlock; m++) {
      // Rows that don't exist have no weights.
      block.logSumExp[m] = m < rows ? call.logSumExp[(head * time + from + m) * group + g] : __builtin_inff();
      Vector sum = zero();
      // Σ p · dp of a row equals Σ out · ct.
      for (long h = 0; h < dim && m < rows; h += lanes) sum = fma(E::load(out.row(m) + h), E::load(ct.row(m) + h), sum);
      block.delta[m] = sumOf(sum);
    }
  }

  /** Weights and cotangents of the scores. `cut`: rows see from their `starts` on; the block's first key is `j`. */
  template <bool diagonal, bool cut>
  void scoreBlock(Block& block, Right keys, Right values, const long* starts, long j) const {
    const long inRow = layout.dim / E::packed;
    for (long m = 0; m < rowBlock; m += tileRows)
      for (long n = 0; n < keyBlock; n += tileVectors * lanes) {
        // By rows: two rows are `pair` words apart, a word holds both where two are packed.
        const auto byRows = [&](uint32_t* x, int r, int c) {
          return x + (m + r) / E::packed * keyBlock + n + c * lanes;
        };
        if (diagonal && n > m + tileRows - 1) {
          for (int r = 0; r < tileRows; r += 2)
            for (int c = 0; c < tileVectors; c++) {
              Element* row = block.dScoreRows + (m + r) * keyBlock + n + c * lanes;
              storeTwo<E>(byRows(block.weights, r, c), keyBlock, nullptr, nullptr, zero(), zero());
              storeTwo<E>(byRows(block.dScores, r, c), keyBlock, row, row + keyBlock, zero(), zero());
            }
          continue;
        }
        Vector sums[tileRows][tileVectors];
        clear(sums);
        addProducts<E>(sums, {(const uint32_t*)block.q + m * inRow, inRow, 1}, {keys.at + n, keys.stride}, inRow);
#pragma GCC unroll 4
        for (int r = 0; r < tileRows; r += 2)
#pragma GCC unroll 4
          for (int c = 0; c < tileVectors; c++) {
            const auto weight = [&](int r) {
              const Vector x = exponential(sub(mul(sums[r][c], fill(scale)), fill(block.logSumExp[m + r])));
              const Vector seen = diagonal ? firstLanes(x, m + r + 1 - n - c * lanes, zero()) : x;
              return cut ? firstLanes(zero(), starts[m + r] - j - n - c * lanes, seen) : seen;
            };
            storeTwo<E>(byRows(block.weights, r, c), keyBlock, nullptr, nullptr, weight(r), weight(r + 1));
          }
        clear(sums);
        addProducts<E>(sums, {(const uint32_t*)block.ct + m * inRow, inRow, 1}, {values.at + n, values.stride}, inRow);
#pragma GCC unroll 4
        for (int r = 0; r < tileRows; r += 2)
#pragma GCC unroll 4
          for (int c = 0; c < tileVectors; c++) {
            Vector low, high;
            loadTwo<E>(byRows(block.weights, r, c), keyBlock, low, high);
            low = mul(low, sub(sums[r][c], fill(block.delta[m + r])));
            high = mul(high, sub(sums[r + 1][c], fill(block.delta[m + r + 1])));
            Element* row = block.dScoreRows + (m + r) * keyBlock + n + c * lanes;
            storeTwo<E>(byRows(block.dScores, r, c), keyBlock, row, row + keyBlock, low, high);
          }
      }
  }

  INLINE void clear(Vector (&sums)[tileRows][tileVectors]) const {
#pragma GCC unroll 4
    for (int r = 0; r < tileRows; r++)
#pragma GCC unroll 4
      for (int c = 0; c < tileVectors; c++) sums[r][c] = zero();
  }

  void writeRows(Element* to, long stride, const float* rows, long count, float factor) const {
    const long dim = layout.dim;
    for (long i = 0; i < count; i++)
      for (long h = 0; h < dim; h += lanes) E::store(to + i * stride + h, mul(load(rows + i * dim + h), fill(factor)));
  }
};

template <class E>
bool backward(const AttentionBackward& call, Threads* threads) {
  const auto& [type, batch, time, keyHeads, group, dim] = call.shape;
  Backward<E> job{call, {time, keyHeads, group, dim}, (float)(1 / __builtin_sqrt((double)dim)),
                  Backward<E>::bytesFor(time, dim)};
  const auto attend = [](void* job, long head) { return ((Backward<E>*)job)->attend(head); };
  return parallelFor(threads, batch * keyHeads, attend, &job);
}

}  // namespace

bool attentionBackward(const AttentionBackward& call, Threads* threads) {
  return call.shape.type == Type::bf16 ? backward<Bf16>(call, threads) : backward<F32>(call, threads);
}

}  // namespace HALFBYTE_ISA
