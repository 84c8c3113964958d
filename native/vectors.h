// Vectors of float32 and of bfloat16 pairs for the instruction set that a kernel file is compiled for: the build compiles each
// such file once for every set, with HALFBYTE_ISA as the name of its namespace.
//
// A "word" is 32 bits of an operand of a product: two bfloat16 that are neighbours along the contracted dim, or one float32.
// That makes one loop of either dtype.
//
// No header of the standard library with inline functions may be included here: the linker would keep one copy of each for
// the whole library, perhaps one that this processor can't run.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#define INLINE inline __attribute__((always_inline))

namespace HALFBYTE_ISA {

#ifdef __AVX512F__
typedef __m512 Vector;
typedef __m512i Words;
constexpr int lanes = 16;
/** The tile of sums that stays in registers: rows, and vectors a row. */
constexpr int tileRows = 4, tileVectors = 4;

INLINE Vector zero() { return _mm512_setzero_ps(); }
INLINE Vector fill(float x) { return _mm512_set1_ps(x); }
INLINE Vector load(const float* p) { return _mm512_loadu_ps(p); }
INLINE void store(float* p, Vector x) { _mm512_storeu_ps(p, x); }
INLINE Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
INLINE Vector sub(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
INLINE Vector mul(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
INLINE Vector div(Vector a, Vector b) { return _mm512_div_ps(a, b); }
/** a · b + c */
INLINE Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
/** c − a · b */
INLINE Vector fnma(Vector a, Vector b, Vector c) { return _mm512_fnmadd_ps(a, b, c); }
/** b where either is NaN */
INLINE Vector larger(Vector a, Vector b) { return _mm512_max_ps(a, b); }
INLINE Vector smaller(Vector a, Vector b) { return _mm512_min_ps(a, b); }
INLINE float sumOf(Vector x) { return _mm512_reduce_add_ps(x); }
INLINE float largestOf(Vector x) { return _mm512_reduce_max_ps(x); }
/** The first `count` lanes of x, then `other`. */
INLINE Vector firstLanes(Vector x, long count, Vector other) {
  const __mmask16 mask = count >= lanes ? 0xffff : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
  return _mm512_mask_mov_ps(other, mask, x);
}
INLINE Vector roundToWhole(Vector x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/** x · 2^n of a whole n */
INLINE Vector timesPowerOfTwo(Vector x, Vector n) { return _mm512_scalef_ps(x, n); }

INLINE Words loadWords(const uint32_t* p) { return _mm512_loadu_si512(p); }
INLINE void storeWords(uint32_t* p, Words x) { _mm512_storeu_si512(p, x); }
INLINE Words fillWords(uint32_t x) { return _mm512_set1_epi32((int)x); }
INLINE Vector lowHalves(Words x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
INLINE Vector highHalves(Words x) { return _mm512_castsi512_ps(_mm512_and_si512(x, fillWords(0xffff0000u))); }
INLINE Vector asFloats(Words x) { return _mm512_castsi512_ps(x); }
INLINE Words asWords(Vector x) { return _mm512_castps_si512(x); }
INLINE Vector loadBf16(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
#ifdef __AVX512BF16__
INLINE __m256i toBf16(Vector x) { return (__m256i)_mm512_cvtneps_pbh(x); }
#else
INLINE __m256i toBf16(Vector x) {
  const Words bits = asWords(x);
  const Words odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), fillWords(1));
  const Words rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, fillWords(0x7fff)));
  const Words quiet = _mm512_or_si512(bits, fillWords(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16));
}
#endif
INLINE void storeBf16(uint16_t* p, Vector x) { _mm256_storeu_si256((__m256i*)p, toBf16(x)); }
/** Words of bfloat16 pairs. */
INLINE Words pairsOf(Vector low, Vector high) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(toBf16(low)), _mm512_slli_epi32(_mm512_cvtepu16_epi32(toBf16(high)), 16));
}
/** Words of the pairs of two rows of bfloat16. */
INLINE Words zipBf16(const uint16_t* low, const uint16_t* high) {
  const Words a = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)low));
  const Words b = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)high));
  return _mm512_or_si512(a, _mm512_slli_epi32(b, 16));
}

#else  // AVX2 and FMA
typedef __m256 Vector;
typedef __m256i Words;
constexpr int lanes = 8;
constexpr int tileRows = 4, tileVectors = 2;

INLINE Vector zero() { return _mm256_setzero_ps(); }
INLINE Vector fill(float x) { return _mm256_set1_ps(x); }
INLINE Vector load(const float* p) { return _mm256_loadu_ps(p); }
INLINE void store(float* p, Vector x) { _mm256_storeu_ps(p, x); }
INLINE Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
INLINE Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
INLINE Vector mul(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
INLINE Vector div(Vector a, Vector b) { return _mm256_div_ps(a, b); }
INLINE Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
INLINE Vector fnma(Vector a, Vector b, Vector c) { return _mm256_fnmadd_ps(a, b, c); }
INLINE Vector larger(Vector a, Vector b) { return _mm256_max_ps(a, b); }
INLINE Vector smaller(Vector a, Vector b) { return _mm256_min_ps(a, b); }
INLINE float sumOf(Vector x) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}
INLINE float largestOf(Vector x) {
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}
INLINE Vector firstLanes(Vector x, long count, Vector other) {
  const int limit = count >= lanes ? lanes : count <= 0 ? 0 : (int)count;
  const Words inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(inside));
}
INLINE Vector roundToWhole(Vector x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/** In two steps, since the exponent of a result in range may need more than 8 bits on the way. */
INLINE Vector timesPowerOfTwo(Vector x, Vector n) {
  const Words whole = _mm256_cvtps_epi32(smaller(fill(254.0f), n));
  const Words half = _mm256_srai_epi32(whole, 1);
  const Words bias = _mm256_set1_epi32(127);
  const auto power = [&](Words e) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, bias), 23)); };
  return mul(mul(x, power(half)), power(_mm256_sub_epi32(whole, half)));
}

INLINE Words loadWords(const uint32_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
INLINE void storeWords(uint32_t* p, Words x) { _mm256_storeu_si256((__m256i*)p, x); }
INLINE Words fillWords(uint32_t x) { return _mm256_set1_epi32((int)x); }
INLINE Vector lowHalves(Words x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
INLINE Vector highHalves(Words x) { return _mm256_castsi256_ps(_mm256_and_si256(x, fillWords(0xffff0000u))); }
INLINE Vector asFloats(Words x) { return _mm256_castsi256_ps(x); }
INLINE Words asWords(Vector x) { return _mm256_castps_si256(x); }
INLINE Vector loadBf16(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
/** bfloat16 in the low half of each word */
INLINE Words bf16Words(Vector x) {
  const Words bits = asWords(x);
  const Words odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), fillWords(1));
  const Words rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, fillWords(0x7fff)));
  const Words quiet = _mm256_or_si256(bits, fillWords(0x400000));
  const Vector nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  return _mm256_srli_epi32(asWords(_mm256_blendv_ps(asFloats(rounded), asFloats(quiet), nan)), 16);
}
INLINE void storeBf16(uint16_t* p, Vector x) {
  const Words words = bf16Words(x);
  _mm_storeu_si128((__m128i*)p, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
INLINE Words pairsOf(Vector low, Vector high) {
  return _mm256_or_si256(bf16Words(low), _mm256_slli_epi32(bf16Words(high), 16));
}
INLINE Words zipBf16(const uint16_t* low, const uint16_t* high) {
  const Words a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)low));
  const Words b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)high));
  return _mm256_or_si256(a, _mm256_slli_epi32(b, 16));
}
#endif

/**
 * e^x to about 1 ulp; 0 below -104, infinity above 88.8, NaN of NaN and of infinity. By 2^n · e^r with |r| ≤ ln 2 / 2;
 * e^r = 1 + r + r² · p(r), where p has the least largest error of its degree (4e-9 of e^r before rounding).
 */
INLINE Vector exponential(Vector x) {
  // The operand that may be NaN comes second.
  x = larger(fill(-104.0f), x);
  const Vector n = roundToWhole(mul(x, fill(1.44269504f)));
  Vector r = fnma(n, fill(0.693145752f), x);
  r = fnma(n, fill(1.42860682e-6f), r);
  Vector p = fill(1.38144579e-3f);
  p = fma(p, r, fill(8.36878084e-3f));
  p = fma(p, r, fill(4.16683927e-2f));
  p = fma(p, r, fill(0.166665196f));
  p = fma(p, r, fill(0.49999994f));
  p = fma(mul(r, r), p, r);
  return timesPowerOfTwo(add(p, fill(1.0f)), n);
}

struct Bf16 {
  typedef uint16_t Element;
  /** Elements in a word. */
  static constexpr int packed = 2;
  static Vector load(const Element* p) { return loadBf16(p); }
  static void store(Element* p, Vector x) { storeBf16(p, x); }
};

struct F32 {
  typedef float Element;
  static constexpr int packed = 1;
  static Vector load(const Element* p) { return HALFBYTE_ISA::load(p); }
  static void store(Element* p, Vector x) { HALFBYTE_ISA::store(p, x); }
};

}  // namespace HALFBYTE_ISA
