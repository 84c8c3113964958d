// What the two directions of attention share: products of small matrices in registers, and packed operands.
#pragma once
#include "kernels.h"
#include "vectors.h"

namespace HALFBYTE_ISA {

/** Products of one word of a row with a vector of words: adds both halves' (bfloat16), or the only one (float32). */
template <class E>
INLINE Vector addProduct(Vector sum, uint32_t a, Words b);

template <>
INLINE Vector addProduct<F32>(Vector sum, uint32_t a, Words b) {
  return fma(asFloats(fillWords(a)), asFloats(b), sum);
}

template <>
INLINE Vector addProduct<Bf16>(Vector sum, uint32_t a, Words b) {
#ifdef __AVX512BF16__
  return _mm512_dpbf16_ps(sum, (__m512bh)fillWords(a), (__m512bh)b);
#else
  return fma(lowHalves(fillWords(a)), lowHalves(b), fma(highHalves(fillWords(a)), highHalves(b), sum));
#endif
}

/** Words of a left operand: word w of row m is at m · row + w · word. */
struct Left {
  const uint32_t* at;
  long row, word;
};

/** Words of a right operand: those of contracted index w are a row of `stride` words. */
struct Right {
  const uint32_t* at;
  long stride;
};

/** sums[m][n] += Σ_w a[m][w] · b[w][n], n counted in vectors */
template <class E, int R, int N>
INLINE void addProducts(Vector (&sums)[R][N], Left a, Right b, long words) {
  for (long w = 0; w < words; w++) {
    Words right[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) right[n] = loadWords(b.at + w * b.stride + n * lanes);
#pragma GCC unroll 8
    for (int m = 0; m < R; m++) {
      const uint32_t left = a.at[m * a.row + w * a.word];
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sums[m][n] = addProduct<E>(sums[m][n], left, right[n]);
    }
  }
}

/** c[m][n] = scale[m] · c[m][n] + Σ_w a · b for R rows; scale null: 1; `fresh`: c is not read. */
template <class E, int R, int N>
INLINE void updateTile(float* c, long stride, const float* scale, bool fresh, Left a, Right b, long words) {
  Vector sums[R][N];
#pragma GCC unroll 8
  for (int m = 0; m < R; m++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) {
      if (fresh) sums[m][n] = zero();
      else sums[m][n] = load(c + m * stride + n * lanes);
      if (scale) sums[m][n] = mul(sums[m][n], fill(scale[m]));
    }
  addProducts<E, R, N>(sums, a, b, words);
#pragma GCC unroll 8
  for (int m = 0; m < R; m++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) store(c + m * stride + n * lanes, sums[m][n]);
}

/** As updateTile, for `columns` columns, a multiple of 16. */
template <class E, int R>
INLINE void updateRows(float* c, long stride, long columns, const float* scale, bool fresh, Left a, Right b, long words) {
  long n = 0;
  for (; n + tileVectors * lanes <= columns; n += tileVectors * lanes)
    updateTile<E, R, tileVectors>(c + n, stride, scale, fresh, a, {b.at + n, b.stride}, words);
  for (; n < columns; n += lanes) updateTile<E, R, 1>(c + n, stride, scale, fresh, a, {b.at + n, b.stride}, words);
}

/** Rows of an operand in memory, `stride` elements apart. */
template <class E>
struct Rows {
  const typename E::Element* at;
  long stride;
  const typename E::Element* row(long i) const { return at + i * stride; }
};

/** to[w][i] = word w of row i, for `width` i of which `count` exist; the others are 0. */
template <class E>
static void packColumns(uint32_t* to, Rows<E> rows, long dim, long count, long width) {
  const long words = dim / E::packed;
  constexpr long edge = 16;
  for (long i0 = 0; i0 < width; i0 += edge)
    for (long w0 = 0; w0 < words; w0 += edge)
      for (long w = w0; w < w0 + edge && w < words; w++)
        for (long i = i0; i < i0 + edge; i++)
          to[w * width + i] = i < count ? ((const uint32_t*)rows.row(i))[w] : 0;
}

/** to[w][h] = the word of rows w · packed …, for `height` rows of which `count` exist; the others are 0. */
template <class E>
static void packRows(uint32_t* to, Rows<E> rows, long dim, long count, long height);

template <>
void packRows<F32>(uint32_t* to, Rows<F32> rows, long dim, long count, long height) {
  for (long i = 0; i < height; i++)
    for (long h = 0; h < dim; h += lanes) store((float*)to + i * dim + h, i < count ? load(rows.row(i) + h) : zero());
}

template <>
void packRows<Bf16>(uint32_t* to, Rows<Bf16> rows, long dim, long count, long height) {
  alignas(64) static const uint16_t none[256] = {};
  for (long i = 0; i < height; i += 2) {
    const uint16_t* low = i < count ? rows.row(i) : none;
    const uint16_t* high = i + 1 < count ? rows.row(i + 1) : none;
    for (long h = 0; h < dim; h += lanes) storeWords(to + (i / 2) * dim + h, zipBf16(low + h, high + h));
  }
}

/** Rows one after the other, `height` of which `count` exist; the others are 0. */
template <class E>
static void copyRows(typename E::Element* to, Rows<E> rows, long dim, long count, long height) {
  const unsigned long bytes = dim * sizeof(typename E::Element);
  for (long i = 0; i < count; i++) __builtin_memcpy(to + i * dim, rows.row(i), bytes);
  if (height > count) __builtin_memset(to + count * dim, 0, (height - count) * bytes);
}

/** Offsets of the heads in [batch, time, heads, dim]. */
struct Layout {
  long time, keyHeads, group, dim;
  long queryStride() const { return keyHeads * group * dim; }
  long keyStride() const { return keyHeads * dim; }
  /** Of key head `head` of all batch entries, and its query head g. */
  long query(long head, long g) const { return (head / keyHeads) * time * queryStride() + (head % keyHeads * group + g) * dim; }
  long key(long head) const { return (head / keyHeads) * time * keyStride() + head % keyHeads * dim; }
};

INLINE long atMost(long a, long b) { return a < b ? a : b; }
INLINE long atLeast(long a, long b) { return a > b ? a : b; }
INLINE long roundUp(long a, long unit) { return (a + unit - 1) / unit * unit; }

/** The first positions that a block's rows see. Whatever the numbers are, none lies before the sequence or after its row. */
template <int rows>
struct Starts {
  long of[rows], lowest = 0, highest = 0;

  /** Of `count` rows from position `from` on; `starts` of the sequence, or null. */
  Starts(const int32_t* starts, long from, long count) {
    for (long m = 0; m < rows; m++) {
      of[m] = starts && m < count ? atMost(atLeast(starts[from + m], 0), from + m) : lowest;
      if (m == 0) lowest = highest = of[m];
      lowest = atMost(lowest, of[m]), highest = atLeast(highest, of[m]);
    }
  }
};

}  // namespace HALFBYTE_ISA
