// The entry points of attention.
#include "handlers.h"

namespace {

/** Of q [B, T, N, H] and k [B, T, K, H]; false where the kernels don't take it. */
bool attentionShape(const ffi::Buffer& q, const ffi::Buffer& k, AttentionShape& shape) {
  const int64_t heads = q.dims[2], keyHeads = k.dims[2], dim = q.dims[3];
  if (keyHeads < 1 || heads % keyHeads != 0 || dim % 16 != 0 || dim < 16 || dim > 256) return false;
  if (k.dims[0] != q.dims[0] || k.dims[1] != q.dims[1] || k.dims[3] != dim) return false;
  shape = {q.type == ffi::bf16 ? Type::bf16 : Type::f32, q.dims[0], q.dims[1], keyHeads, heads / keyHeads, dim};
  return true;
}

}  // namespace

ffi::Error* runAttentionForward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  const int32_t type = in.count == 3 ? in.at[0]->type : 0;
  AttentionShape shape;
  if (!kernels || (type != ffi::bf16 && type != ffi::f32) || !fits(in, {{type, 4}, {type, 4}, {type, 4}}) ||
      !fits(out, {{type, 4}, {ffi::f32, 3}}) || !attentionShape(*in.at[0], *in.at[1], shape))
    return misfit(frame);
  Pool pool(frame);
  const AttentionForward call{shape, in.at[0]->data, in.at[1]->data, in.at[2]->data, out.at[0]->data,
                              static_cast<float*>(out.at[1]->data)};
  return kernels->attentionForward(call, &pool) ? nullptr : failure(frame, "no memory for attention");
}

ffi::Error* runAttentionBackward(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  const int32_t type = in.count == 6 ? in.at[0]->type : 0;
  AttentionShape shape;
  if (!kernels || (type != ffi::bf16 && type != ffi::f32) ||
      !fits(in, {{type, 4}, {type, 4}, {type, 4}, {type, 4}, {ffi::f32, 3}, {type, 4}}) ||
      !fits(out, {{type, 4}, {type, 4}, {type, 4}}) || !attentionShape(*in.at[0], *in.at[1], shape))
    return misfit(frame);
  Pool pool(frame);
  const AttentionBackward call{shape,          in.at[0]->data,  in.at[1]->data,
                               in.at[2]->data, in.at[3]->data,  in.at[5]->data,
                               static_cast<const float*>(in.at[4]->data), out.at[0]->data, out.at[1]->data,
                               out.at[2]->data};
  return kernels->attentionBackward(call, &pool) ? nullptr : failure(frame, "no memory for attention");
}
