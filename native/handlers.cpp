// What the library tells of itself: its handlers by name, and the instruction sets that they can use here.
#include "handlers.h"

namespace {

/** int32 a [n] → 3 · a, by all threads: whether calls arrive as they are understood here. */
ffi::Error* runProbe(ffi::Frame* frame) {
  if (isNoRun(frame)) return nullptr;
  const auto &in = frame->arguments, &out = frame->results;
  const ffi::Buffer* x = bufferOf(in, 0, 1);
  if (!kernelsOf(frame) || !x || !fits(in, {{ffi::s32, *x}}) || !fits(out, {{ffi::s32, *x}})) return misfit(frame);
  Pool pool(frame);
  struct Context {
    const int32_t* from;
    int32_t* to;
  } context{static_cast<const int32_t*>(in.at[0]->data), static_cast<int32_t*>(out.at[0]->data)};
  parallelFor(
      &pool, in.at[0]->dims[0],
      [](void* context, long i) {
        const auto& [from, to] = *static_cast<Context*>(context);
        to[i] = 3 * from[i];
        return true;
      },
      &context);
  return nullptr;
}

struct Entry {
  /** The end of the list: null. */
  const char* name;
  uint64_t length;
  ffi::Handler* handler;
};

#define ENTRY(name, handler) {name, sizeof(name) - 1, handler}

const Entry entries[] = {
    ENTRY("halfbyte_probe", runProbe),
    ENTRY("halfbyte_attention_forward", runAttentionForward),
    ENTRY("halfbyte_attention_backward", runAttentionBackward),
    ENTRY("halfbyte_segment_attention_forward", runSegmentAttentionForward),
    ENTRY("halfbyte_segment_attention_backward", runSegmentAttentionBackward),
    ENTRY("halfbyte_softmax_loss", runSoftmaxLoss),
    ENTRY("halfbyte_rms_norm_forward", runRmsNormForward),
    ENTRY("halfbyte_rms_norm_backward", runRmsNormBackward),
    ENTRY("halfbyte_swiglu_forward", runSwigluForward),
    ENTRY("halfbyte_swiglu_backward", runSwigluBackward),
    ENTRY("halfbyte_sum_of_squares", runSumOfSquares),
    {nullptr, 0, nullptr},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* halfbyte_handlers() { return entries; }

/** As a number in a pointer: the bits of the instruction sets that the kernels can use here. */
extern "C" __attribute__((visibility("default"))) const void* halfbyte_instruction_sets() {
  return reinterpret_cast<const void*>(instructionSets());
}
