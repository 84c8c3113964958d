// Cross-entropy of rows of logits and its gradient: a row is read from memory once and stays in the cache until its gradient
// is written.
#include "kernels.h"
#include "vectors.h"

namespace HALFBYTE_ISA {
namespace {

constexpr long rowsOfPart = 4;
constexpr float infinity = __builtin_inff();

template <class E>
void rowLoss(const SoftmaxLoss& call, long row, float* weights) {
  typedef typename E::Element Element;
  const long size = call.vocabulary;
  const float* logits = call.logits + row * size;
  const long whole = size / lanes * lanes;
  Vector most = fill(-infinity);
  for (long i = 0; i < whole; i += lanes) most = larger(load(logits + i), most);
  float highest = largestOf(most);
  for (long i = whole; i < size; i++) highest = logits[i] > highest ? logits[i] : highest;
  Vector sum = zero();
  for (long i = 0; i < whole; i += lanes) {
    const Vector x = exponential(sub(load(logits + i), fill(highest)));
    sum = add(sum, x);
    store(weights + i, x);
  }
  float last[lanes] = {};
  for (long i = whole; i < size; i++) last[i - whole] = logits[i] - highest;
  const Vector rest = firstLanes(exponential(load(last)), size - whole, zero());
  store(last, rest);
  const float total = sumOf(add(sum, rest));
  const float logSumExp = highest + __builtin_logf(total);

  const float weight = call.weights[row];
  const int32_t target = call.targets[row];
  // Outside there is no logit: 0, as for the plain lowering.
  const bool isInside = target >= 0 && target < size;
  const float loss = logSumExp - (isInside ? logits[target] : 0) + call.zLoss * logSumExp * logSumExp;
  // A masked row must not turn an infinite loss into NaN.
  call.losses[row] = weight > 0 ? loss * weight : 0;

  const float pull = (1 + 2 * call.zLoss * logSumExp) / total;
  Element* out = (Element*)call.gradient + row * size;
  // First pulled, then weighed, as the target's element is: its own 1 is not pulled.
  for (long i = 0; i < whole; i += lanes)
    E::store(out + i, mul(mul(load(weights + i), fill(pull)), fill(weight)));
  Element tail[lanes];
  E::store(tail, mul(mul(rest, fill(pull)), fill(weight)));
  for (long i = whole; i < size; i++) out[i] = tail[i - whole];
  if (isInside) {
    const float p = target < whole ? weights[target] : last[target - whole];
    E::store(tail, fill((p * pull - 1) * weight));
    out[target] = tail[0];
  }
}

template <class E>
bool part(void* context, long i) {
  const auto& call = *(const SoftmaxLoss*)context;
  float* weights = (float*)scratch((call.vocabulary + lanes) * sizeof(float));
  if (!weights) return false;
  for (long row = i * rowsOfPart; row < (i + 1) * rowsOfPart && row < call.rows; row++) rowLoss<E>(call, row, weights);
  return true;
}

}  // namespace

bool softmaxLoss(const SoftmaxLoss& call, Threads* threads) {
  const long parts = (call.rows + rowsOfPart - 1) / rowsOfPart;
  return parallelFor(threads, parts, call.type == Type::bf16 ? part<Bf16> : part<F32>, (void*)&call);
}

}  // namespace HALFBYTE_ISA
