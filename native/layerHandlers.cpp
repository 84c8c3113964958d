// The entry points of the loss, the norm, SwiGLU and the gradient's norm.
#include "handlers.h"

namespace {

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
  const ffi::Buffer *logits = bufferOf(in, 0, 2), *gradient = bufferOf(out, 1, 2);
  if (!kernels || !logits || !gradient || !floatType(gradient->type, type) || !numberAttribute(frame, "zLoss", zLoss))
    return misfit(frame);
  const int64_t rows[] = {logits->dims[0]};
  if (!fits(in, {{ffi::f32, *logits}, {ffi::s32, rows}, {ffi::f32, rows}}) ||
      !fits(out, {{ffi::f32, rows}, {gradient->type, *logits}}))
    return misfit(frame);
  Pool pool(frame);
  const SoftmaxLoss call{type,
                         logits->dims[0],
                         logits->dims[1],
                         (float)zLoss,
                         dataOf<float>(in, 0),
                         dataOf<int32_t>(in, 1),
                         dataOf<float>(in, 2),
                         dataOf<float>(out, 0),
                         out.at[1]->data};
  return kernels->softmaxLoss(call, &pool) ? nullptr : outOfMemory(frame);
}

/** Rows and width of an array whose last dim is normalized. */
static bool rowsOf(const ffi::Buffer& x, long& rows, int64_t& width) {
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
  const ffi::Buffer* x = bufferOf(in, 0, -1);
  Type type;
  double eps;
  long rows;
  int64_t width[1];
  if (!kernels || !x || !floatType(x->type, type) || !numberAttribute(frame, "eps", eps) || !rowsOf(*x, rows, width[0]) ||
      !fits(in, {*x, {ffi::f32, width}}) || !fits(out, {*x}))
    return misfit(frame);
  Pool pool(frame);
  const RmsNormForward call{type, rows, width[0], (float)eps, x->data, dataOf<float>(in, 1), out.at[0]->data};
  return kernels->rmsNormForward(call, &pool) ? nullptr : outOfMemory(frame);
}

/** x [..., D], weight [D], ct [..., D] → [..., D], [D] */
ffi::Error* runRmsNormBackward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  const ffi::Buffer* x = bufferOf(in, 0, -1);
  Type type;
  double eps;
  long rows;
  int64_t width[1];
  if (!kernels || !x || !floatType(x->type, type) || !numberAttribute(frame, "eps", eps) || !rowsOf(*x, rows, width[0]) ||
      !fits(in, {*x, {ffi::f32, width}, *x}) || !fits(out, {*x, {ffi::f32, width}}))
    return misfit(frame);
  Pool pool(frame);
  const RmsNormBackward call{type,           rows, width[0], (float)eps, x->data, dataOf<float>(in, 1), in.at[2]->data,
                             out.at[0]->data, dataOf<float>(out, 1)};
  return kernels->rmsNormBackward(call, &pool) ? nullptr : outOfMemory(frame);
}

/** gate, up → silu(gate) · up, all of one shape */
ffi::Error* runSwigluForward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  const ffi::Buffer* gate = bufferOf(in, 0, -1);
  Type type;
  if (!kernels || !gate || !floatType(gate->type, type) || sizeOf(*gate) % 16 != 0 || !fits(in, {*gate, *gate}) ||
      !fits(out, {*gate}))
    return misfit(frame);
  Pool pool(frame);
  const SwigluForward call{type, sizeOf(*gate), gate->data, in.at[1]->data, out.at[0]->data};
  return kernels->swigluForward(call, &pool) ? nullptr : outOfMemory(frame);
}

/** gate, up, ct → their cotangents, all of one shape */
ffi::Error* runSwigluBackward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  const ffi::Buffer* gate = bufferOf(in, 0, -1);
  Type type;
  if (!kernels || !gate || !floatType(gate->type, type) || sizeOf(*gate) % 16 != 0 || !fits(in, {*gate, *gate, *gate}) ||
      !fits(out, {*gate, *gate}))
    return misfit(frame);
  Pool pool(frame);
  const SwigluBackward call{type,           sizeOf(*gate),   gate->data,      in.at[1]->data,
                            in.at[2]->data, out.at[0]->data, out.at[1]->data};
  return kernels->swigluBackward(call, &pool) ? nullptr : outOfMemory(frame);
}

/** float32 of any shape → float64 scalar */
ffi::Error* runSumOfSquares(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  constexpr int32_t f64 = 12;
  const ffi::Buffer *x = in.count == 1 ? in.at[0] : nullptr, *sum = bufferOf(out, 0, 0);
  if (!kernels || !x || !sum || !fits(in, {{ffi::f32, *x}}) || !fits(out, {{f64, *sum}})) return misfit(frame);
  Pool pool(frame);
  const SumOfSquares call{sizeOf(*in.at[0]), dataOf<float>(in, 0), dataOf<double>(out, 0)};
  return kernels->sumOfSquares(call, &pool) ? nullptr : outOfMemory(frame);
}
