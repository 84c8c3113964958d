// RMSNorm, forward and backward: each row of x is read once.
#include "kernels.h"
#include "vectors.h"

namespace HALFBYTE_ISA {
namespace {

/** Rows are shared out in this many parts, whatever the threads, so that sums over rows always have the same order. */
constexpr long parts = 64;

INLINE long firstRow(long rows, long part) { return rows * part / parts; }

template <class E>
INLINE float inverseRms(const typename E::Element* x, long width, float eps) {
  Vector sums[2] = {zero(), zero()};
  long i = 0;
  for (; i + 2 * lanes <= width; i += 2 * lanes)
    for (int j = 0; j < 2; j++) {
      const Vector value = E::load(x + i + j * lanes);
      sums[j] = fma(value, value, sums[j]);
    }
  for (; i < width; i += lanes) {
    const Vector value = E::load(x + i);
    sums[0] = fma(value, value, sums[0]);
  }
  return 1 / __builtin_sqrtf(sumOf(add(sums[0], sums[1])) / (float)width + eps);
}

template <class E>
bool forwardPart(void* context, long part) {
  typedef typename E::Element Element;
  const auto& call = *(const RmsNormForward*)context;
  for (long row = firstRow(call.rows, part); row < firstRow(call.rows, part + 1); row++) {
    const Element* x = (const Element*)call.x + row * call.width;
    Element* out = (Element*)call.out + row * call.width;
    const Vector scale = fill(inverseRms<E>(x, call.width, call.eps));
    for (long i = 0; i < call.width; i += lanes) E::store(out + i, mul(mul(E::load(x + i), scale), load(call.weight + i)));
  }
  return true;
}

struct Backward {
  const RmsNormBackward& call;
  /** [parts, width] */
  float* sums;
};

template <class E>
bool backwardPart(void* context, long part) {
  typedef typename E::Element Element;
  const auto& [call, allSums] = *(const Backward*)context;
  const long width = call.width;
  float* sums = allSums + part * width;
  for (long i = 0; i < width; i += lanes) store(sums + i, zero());
  for (long row = firstRow(call.rows, part); row < firstRow(call.rows, part + 1); row++) {
    const Element *x = (const Element*)call.x + row * width, *ct = (const Element*)call.ct + row * width;
    Element* dx = (Element*)call.dx + row * width;
    const Vector scale = fill(inverseRms<E>(x, width, call.eps));
    Vector along = zero();
    for (long i = 0; i < width; i += lanes) {
      const Vector unit = mul(E::load(x + i), scale), pulled = mul(E::load(ct + i), unit);
      store(sums + i, add(load(sums + i), pulled));
      along = fma(pulled, load(call.weight + i), along);
    }
    const Vector mean = fill(sumOf(along) / (float)width);
    for (long i = 0; i < width; i += lanes) {
      const Vector unit = mul(E::load(x + i), scale), weighted = mul(E::load(ct + i), load(call.weight + i));
      E::store(dx + i, mul(fnma(unit, mean, weighted), scale));
    }
  }
  return true;
}

}  // namespace

bool rmsNormForward(const RmsNormForward& call, Threads* threads) {
  return parallelFor(threads, parts, call.type == Type::bf16 ? forwardPart<Bf16> : forwardPart<F32>, (void*)&call);
}

bool rmsNormBackward(const RmsNormBackward& call, Threads* threads) {
  float* sums = (float*)allocate(parts * call.width * sizeof(float));
  if (!sums) return false;
  Backward job{call, sums};
  parallelFor(threads, parts, call.type == Type::bf16 ? backwardPart<Bf16> : backwardPart<F32>, &job);
  for (long i = 0; i < call.width; i += lanes) {
    Vector sum = zero();
    for (long part = 0; part < parts; part++) sum = add(sum, load(sums + part * call.width + i));
    store(call.dWeight + i, sum);
  }
  release(sums);
  return true;
}

}  // namespace HALFBYTE_ISA
