// The entry points of attention.
#include "handlers.h"

namespace {

/** What a call's first operands, q [B, T, N, H] and k [B, T, K, H], say of all its buffers. */
struct Attention {
  AttentionShape shape;
  const ffi::Buffer *q, *k;
  /** [B · K, T · N / K, 1] */
  int64_t logSumExp[3];
  /** [B, T] */
  int64_t starts[2];

  /** Whether the kernels take such operands. */
  bool read(const ffi::Values& in) {
    q = bufferOf(in, 0, 4), k = bufferOf(in, 1, 4);
    Type type;
    if (!q || !k || !floatType(q->type, type)) return false;
    const int64_t batch = q->dims[0], time = q->dims[1], heads = q->dims[2], keyHeads = k->dims[2], dim = q->dims[3];
    if (keyHeads < 1 || heads % keyHeads != 0 || dim % 16 != 0 || dim < 16 || dim > 256) return false;
    if (k->type != q->type || k->dims[0] != batch || k->dims[1] != time || k->dims[3] != dim) return false;
    shape = {type, batch, time, keyHeads, heads / keyHeads, dim};
    logSumExp[0] = batch * keyHeads, logSumExp[1] = time * shape.group, logSumExp[2] = 1;
    starts[0] = batch, starts[1] = time;
    return true;
  }
};

/** int32 starts are the last operand, if `cut`. */
template <bool cut>
bool readForward(const ffi::Frame& frame, AttentionForward& call) {
  const auto &in = frame.arguments, &out = frame.results;
  Attention of;
  if (!of.read(in) || !fits(out, {*of.q, {ffi::f32, of.logSumExp}})) return false;
  if (cut ? !fits(in, {*of.q, *of.k, *of.k, {ffi::s32, of.starts}}) : !fits(in, {*of.q, *of.k, *of.k})) return false;
  call = {of.shape,
          dataOf<void>(in, 0),
          dataOf<void>(in, 1),
          dataOf<void>(in, 2),
          dataOf<void>(out, 0),
          dataOf<float>(out, 1),
          cut ? dataOf<int32_t>(in, 3) : nullptr};
  return true;
}

template <bool cut>
bool readBackward(const ffi::Frame& frame, AttentionBackward& call) {
  const auto &in = frame.arguments, &out = frame.results;
  Attention of;
  if (!of.read(in) || !fits(out, {*of.q, *of.k, *of.k})) return false;
  const Expected logSumExp{ffi::f32, of.logSumExp};
  if (cut ? !fits(in, {*of.q, *of.k, *of.k, *of.q, logSumExp, *of.q, {ffi::s32, of.starts}})
          : !fits(in, {*of.q, *of.k, *of.k, *of.q, logSumExp, *of.q}))
    return false;
  call = {of.shape,
          dataOf<void>(in, 0),
          dataOf<void>(in, 1),
          dataOf<void>(in, 2),
          dataOf<void>(in, 3),
          dataOf<void>(in, 5),
          dataOf<float>(in, 4),
          dataOf<void>(out, 0),
          dataOf<void>(out, 1),
          dataOf<void>(out, 2),
          cut ? dataOf<int32_t>(in, 6) : nullptr};
  return true;
}

template <bool cut>
ffi::Error* forward(ffi::Frame* frame) {
  return handle(frame, readForward<cut>, &Kernels::attentionForward);
}

template <bool cut>
ffi::Error* backward(ffi::Frame* frame) {
  return handle(frame, readBackward<cut>, &Kernels::attentionBackward);
}

}  // namespace

ffi::Error* runAttentionForward(ffi::Frame* frame) { return forward<false>(frame); }
ffi::Error* runAttentionBackward(ffi::Frame* frame) { return backward<false>(frame); }
ffi::Error* runSegmentAttentionForward(ffi::Frame* frame) { return forward<true>(frame); }
ffi::Error* runSegmentAttentionBackward(ffi::Frame* frame) { return backward<true>(frame); }
