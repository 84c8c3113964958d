// The entry points of the loss, the norm, SwiGLU and the gradient's norm.
#include "handlers.h"

namespace {

/** logits [M, V], targets [M], weights [M] → losses [M], gradient [M, V] */
bool readSoftmaxLoss(const ffi::Frame& frame, SoftmaxLoss& call) {
  const auto &in = frame.arguments, &out = frame.results;
  const ffi::Buffer *logits = bufferOf(in, 0, 2), *gradient = bufferOf(out, 1, 2);
  Type type;
  float zLoss;
  if (!logits || !gradient || !floatType(gradient->type, type) || !numberAttribute(frame, "zLoss", zLoss)) return false;
  const int64_t rows[] = {logits->dims[0]};
  if (!fits(in, {{ffi::f32, *logits}, {ffi::s32, rows}, {ffi::f32, rows}}) ||
      !fits(out, {{ffi::f32, rows}, {gradient->type, *logits}}))
    return false;
  call = {type,
          logits->dims[0],
          logits->dims[1],
          zLoss,
          dataOf<float>(in, 0),
          dataOf<int32_t>(in, 1),
          dataOf<float>(in, 2),
          dataOf<float>(out, 0),
          dataOf<void>(out, 1)};
  return true;
}

/** What a norm's first operand, x [..., D], says of all its buffers. */
struct Norm {
  const ffi::Buffer* x;
  Type type;
  long rows;
  int64_t width[1];
  float eps;

  /** Whether the kernels take such operands. */
  bool read(const ffi::Frame& frame) {
    x = bufferOf(frame.arguments, 0, -1);
    if (!x || !floatType(x->type, type) || !numberAttribute(frame, "eps", eps)) return false;
    width[0] = x->dims[x->rank - 1];
    if (width[0] < 16 || width[0] % 16 != 0) return false;
    rows = sizeOf(*x) / width[0];
    return true;
  }
};

/** x [..., D], weight [D] → [..., D] */
bool readRmsNormForward(const ffi::Frame& frame, RmsNormForward& call) {
  const auto &in = frame.arguments, &out = frame.results;
  Norm of;
  if (!of.read(frame) || !fits(in, {*of.x, {ffi::f32, of.width}}) || !fits(out, {*of.x})) return false;
  call = {of.type, of.rows, of.width[0], of.eps, of.x->data, dataOf<float>(in, 1), dataOf<void>(out, 0)};
  return true;
}

/** x [..., D], weight [D], ct [..., D] → [..., D], [D] */
bool readRmsNormBackward(const ffi::Frame& frame, RmsNormBackward& call) {
  const auto &in = frame.arguments, &out = frame.results;
  Norm of;
  if (!of.read(frame) || !fits(in, {*of.x, {ffi::f32, of.width}, *of.x}) || !fits(out, {*of.x, {ffi::f32, of.width}}))
    return false;
  call = {of.type,
          of.rows,
          of.width[0],
          of.eps,
          of.x->data,
          dataOf<float>(in, 1),
          dataOf<void>(in, 2),
          dataOf<void>(out, 0),
          dataOf<float>(out, 1)};
  return true;
}

/** The first operand of SwiGLU where the kernels take its type and size; else null. */
const ffi::Buffer* gateOf(const ffi::Values& in, Type& type) {
  const ffi::Buffer* gate = bufferOf(in, 0, -1);
  return gate && floatType(gate->type, type) && sizeOf(*gate) % 16 == 0 ? gate : nullptr;
}

/** gate, up → silu(gate) · up, all of one shape */
bool readSwigluForward(const ffi::Frame& frame, SwigluForward& call) {
  const auto &in = frame.arguments, &out = frame.results;
  Type type;
  const ffi::Buffer* gate = gateOf(in, type);
  if (!gate || !fits(in, {*gate, *gate}) || !fits(out, {*gate})) return false;
  call = {type, sizeOf(*gate), gate->data, dataOf<void>(in, 1), dataOf<void>(out, 0)};
  return true;
}

/** gate, up, ct → cotangents of gate and up, all of one shape */
bool readSwigluBackward(const ffi::Frame& frame, SwigluBackward& call) {
  const auto &in = frame.arguments, &out = frame.results;
  Type type;
  const ffi::Buffer* gate = gateOf(in, type);
  if (!gate || !fits(in, {*gate, *gate, *gate}) || !fits(out, {*gate, *gate})) return false;
  call = {type,
          sizeOf(*gate),
          gate->data,
          dataOf<void>(in, 1),
          dataOf<void>(in, 2),
          dataOf<void>(out, 0),
          dataOf<void>(out, 1)};
  return true;
}

/** float32 of any shape → float64 scalar */
bool readSumOfSquares(const ffi::Frame& frame, SumOfSquares& call) {
  const auto &in = frame.arguments, &out = frame.results;
  constexpr int32_t f64 = 12;
  const ffi::Buffer *x = in.count == 1 ? in.at[0] : nullptr, *sum = bufferOf(out, 0, 0);
  if (!x || !sum || !fits(in, {{ffi::f32, *x}}) || !fits(out, {{f64, *sum}})) return false;
  call = {sizeOf(*x), dataOf<float>(in, 0), dataOf<double>(out, 0)};
  return true;
}

}  // namespace

ffi::Error* runSoftmaxLoss(ffi::Frame* frame) { return handle(frame, readSoftmaxLoss, &Kernels::softmaxLoss); }
ffi::Error* runRmsNormForward(ffi::Frame* frame) { return handle(frame, readRmsNormForward, &Kernels::rmsNormForward); }
ffi::Error* runRmsNormBackward(ffi::Frame* frame) {
  return handle(frame, readRmsNormBackward, &Kernels::rmsNormBackward);
}
ffi::Error* runSwigluForward(ffi::Frame* frame) { return handle(frame, readSwigluForward, &Kernels::swigluForward); }
ffi::Error* runSwigluBackward(ffi::Frame* frame) { return handle(frame, readSwigluBackward, &Kernels::swigluBackward); }
ffi::Error* runSumOfSquares(ffi::Frame* frame) { return handle(frame, readSumOfSquares, &Kernels::sumOfSquares); }
