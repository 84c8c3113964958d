// The entry points of the loss, the norm, SwiGLU and the gradient's norm.
#include "handlers.h"

namespace {

const char noMemory[] = "no memory for a native kernel";

template <class T>
T* dataOf(const ffi::Values& values, int i) {
  return static_cast<T*>(values.at[i]->data);
}

}  // namespace

/** logits [M, V], targets [M], weights [M] → losses [M], gradient [M, V] */
ffi::Error* runSoftmaxLoss(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  Type type;
  double zLoss;
  const int32_t ct = out.count == 2 ? out.at[1]->type : 0;
  if (!kernels || !floatType(ct, type) || !numberAttribute(frame, "zLoss", zLoss) ||
      !fits(in, {{ffi::f32, 2}, {ffi::s32, 1}, {ffi::f32, 1}}) || !fits(out, {{ffi::f32, 1}, {ct, 2}}))
    return misfit(frame);
  Pool pool(frame);
  const SoftmaxLoss call{type,
                         in.at[0]->dims[0],
                         in.at[0]->dims[1],
                         (float)zLoss,
                         dataOf<float>(in, 0),
                         dataOf<int32_t>(in, 1),
                         dataOf<float>(in, 2),
                         dataOf<float>(out, 0),
                         out.at[1]->data};
  kernels->softmaxLoss(call, &pool);
  return nullptr;
}

/** Rows and width of an array whose last dim is normalized. */
static bool rowsOf(const ffi::Buffer& x, long& rows, long& width) {
  if (x.rank < 1) return false;
  width = x.dims[x.rank - 1];
  if (width < 16 || width % 16 != 0) return false;
  rows = sizeOf(x) / width;
  return true;
}

/** x [..., D], weight [D] → [..., D] */
ffi::Error* runRmsNormForward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  if (!kernels || in.count != 2) return misfit(frame);
  const ffi::Buffer& x = *in.at[0];
  Type type;
  double eps;
  long rows, width;
  if (!floatType(x.type, type) || !numberAttribute(frame, "eps", eps) || !rowsOf(x, rows, width) ||
      !fits(in, {{x.type, x.rank}, {ffi::f32, 1}}) || !fits(out, {{x.type, x.rank}}))
    return misfit(frame);
  Pool pool(frame);
  kernels->rmsNormForward({type, rows, width, (float)eps, x.data, dataOf<float>(in, 1), out.at[0]->data}, &pool);
  return nullptr;
}

/** x [..., D], weight [D], ct [..., D] → [..., D], [D] */
ffi::Error* runRmsNormBackward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  if (!kernels || in.count != 3) return misfit(frame);
  const ffi::Buffer& x = *in.at[0];
  Type type;
  double eps;
  long rows, width;
  if (!floatType(x.type, type) || !numberAttribute(frame, "eps", eps) || !rowsOf(x, rows, width) ||
      !fits(in, {{x.type, x.rank}, {ffi::f32, 1}, {x.type, x.rank}}) || !fits(out, {{x.type, x.rank}, {ffi::f32, 1}}))
    return misfit(frame);
  Pool pool(frame);
  const RmsNormBackward call{type,           rows, width, (float)eps, x.data, dataOf<float>(in, 1), in.at[2]->data,
                             out.at[0]->data, dataOf<float>(out, 1)};
  return kernels->rmsNormBackward(call, &pool) ? nullptr : failure(frame, noMemory);
}

/** gate, up → silu(gate) · up, all of one shape */
ffi::Error* runSwigluForward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  if (!kernels || in.count != 2) return misfit(frame);
  const ffi::Buffer& gate = *in.at[0];
  const Expected like{gate.type, gate.rank};
  const int64_t size = sizeOf(gate);
  Type type;
  if (!floatType(gate.type, type) || size % 16 != 0 || !fits(in, {like, like}) || !fits(out, {like})) return misfit(frame);
  Pool pool(frame);
  kernels->swigluForward({type, size, gate.data, in.at[1]->data, out.at[0]->data}, &pool);
  return nullptr;
}

/** gate, up, ct → their cotangents, all of one shape */
ffi::Error* runSwigluBackward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  if (!kernels || in.count != 3) return misfit(frame);
  const ffi::Buffer& gate = *in.at[0];
  const Expected like{gate.type, gate.rank};
  const int64_t size = sizeOf(gate);
  Type type;
  if (!floatType(gate.type, type) || size % 16 != 0 || !fits(in, {like, like, like}) || !fits(out, {like, like}))
    return misfit(frame);
  Pool pool(frame);
  kernels->swigluBackward({type, size, gate.data, in.at[1]->data, in.at[2]->data, out.at[0]->data, out.at[1]->data}, &pool);
  return nullptr;
}

/** float32 of any shape → float64 scalar */
ffi::Error* runSumOfSquares(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  constexpr int32_t f64 = 12;
  if (!kernels || in.count != 1 || in.at[0]->type != ffi::f32 || !fits(out, {{f64, 0}})) return misfit(frame);
  Pool pool(frame);
  const SumOfSquares call{sizeOf(*in.at[0]), dataOf<float>(in, 0), dataOf<double>(out, 0)};
  return kernels->sumOfSquares(call, &pool) ? nullptr : failure(frame, noMemory);
}
