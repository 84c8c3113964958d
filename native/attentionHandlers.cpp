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
ffi::Error* forward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  Attention of;
  if (!kernels || !of.read(in) || !fits(out, {*of.q, {ffi::f32, of.logSumExp}})) return misfit(frame);
  if (cut ? !fits(in, {*of.q, *of.k, *of.k, {ffi::s32, of.starts}}) : !fits(in, {*of.q, *of.k, *of.k}))
    return misfit(frame);
  Pool pool(frame);
  const AttentionForward call{of.shape,          in.at[0]->data,
                              in.at[1]->data,    in.at[2]->data,
                              out.at[0]->data,   static_cast<float*>(out.at[1]->data),
                              cut ? static_cast<const int32_t*>(in.at[3]->data) : nullptr};
  return kernels->attentionForward(call, &pool) ? nullptr : outOfMemory(frame);
}

template <bool cut>
ffi::Error* backward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  Attention of;
  if (!kernels || !of.read(in) || !fits(out, {*of.q, *of.k, *of.k})) return misfit(frame);
  const Expected logSumExp{ffi::f32, of.logSumExp};
  if (cut ? !fits(in, {*of.q, *of.k, *of.k, *of.q, logSumExp, *of.q, {ffi::s32, of.starts}})
          : !fits(in, {*of.q, *of.k, *of.k, *of.q, logSumExp, *of.q}))
    return misfit(frame);
  Pool pool(frame);
  const AttentionBackward call{of.shape,
                               in.at[0]->data,
                               in.at[1]->data,
                               in.at[2]->data,
                               in.at[3]->data,
                               in.at[5]->data,
                               static_cast<const float*>(in.at[4]->data),
                               out.at[0]->data,
                               out.at[1]->data,
                               out.at[2]->data,
                               cut ? static_cast<const int32_t*>(in.at[6]->data) : nullptr};
  return kernels->attentionBackward(call, &pool) ? nullptr : outOfMemory(frame);
}

}  // namespace

ffi::Error* runAttentionForward(ffi::Frame* frame) { return forward<false>(frame); }
ffi::Error* runAttentionBackward(ffi::Frame* frame) { return backward<false>(frame); }
ffi::Error* runSegmentAttentionForward(ffi::Frame* frame) { return forward<true>(frame); }
ffi::Error* runSegmentAttentionBackward(ffi::Frame* frame) { return backward<true>(frame); }
