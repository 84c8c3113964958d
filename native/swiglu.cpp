// SwiGLU, forward and backward, in one pass over its operands.
#include "kernels.h"
#include "vectors.h"

namespace HALFBYTE_ISA {
namespace {

/** Elements of a part. */
constexpr long partSize = 1 << 15;

INLINE Vector sigmoid(Vector x) { return div(fill(1), add(fill(1), exponential(sub(zero(), x)))); }

template <class E>
bool forwardPart(void* context, long part) {
  typedef typename E::Element Element;
  const auto& call = *(const SwigluForward*)context;
  const long from = part * partSize, to = from + partSize < call.size ? from + partSize : call.size;
  for (long i = from; i < to; i += lanes) {
    const Vector gate = E::load((const Element*)call.gate + i), up = E::load((const Element*)call.up + i);
    E::store((Element*)call.out + i, mul(mul(gate, sigmoid(gate)), up));
  }
  return true;
}

template <class E>
bool backwardPart(void* context, long part) {
  typedef typename E::Element Element;
  const auto& call = *(const SwigluBackward*)context;
  const long from = part * partSize, to = from + partSize < call.size ? from + partSize : call.size;
  for (long i = from; i < to; i += lanes) {
    const Vector gate = E::load((const Element*)call.gate + i), up = E::load((const Element*)call.up + i);
    const Vector ct = E::load((const Element*)call.ct + i), s = sigmoid(gate);
    const Vector swish = mul(gate, s);
    E::store((Element*)call.dUp + i, mul(ct, swish));
    // silu'(g) = s + g · s · (1 − s)
    const Vector slope = fma(swish, sub(fill(1), s), s);
    E::store((Element*)call.dGate + i, mul(mul(ct, up), slope));
  }
  return true;
}

INLINE long partsOf(long size) { return (size + partSize - 1) / partSize; }

}  // namespace

bool swigluForward(const SwigluForward& call, Threads* threads) {
  return parallelFor(threads, partsOf(call.size), call.type == Type::bf16 ? forwardPart<Bf16> : forwardPart<F32>, (void*)&call);
}

bool swigluBackward(const SwigluBackward& call, Threads* threads) {
  return parallelFor(threads, partsOf(call.size), call.type == Type::bf16 ? backwardPart<Bf16> : backwardPart<F32>, (void*)&call);
}

}  // namespace HALFBYTE_ISA
