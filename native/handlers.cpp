// The entry points: what XLA calls, and what tells of them. A handler checks what it is given and calls the kernel of the
// instruction set that the program names, so that a program's text decides its bits.
#include <cstring>

#include "ffi.h"
#include "kernels.h"
#include "threads.h"

namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace avx512bf16 {
extern const Kernels kernels;
}

namespace {

/** XLA's pool, as long as a call lasts. */
struct Pool : Threads {
  ffi::Frame* frame;

  explicit Pool(ffi::Frame* frame) : frame(frame) {}

  bool refused(ffi::Error* error) {
    if (!error) return false;
    ffi::ErrorDestroyArgs args{sizeof(args), nullptr, error};
    frame->api->errorDestroy(&args);
    return true;
  }

  long count() override {
    int64_t count = 1;
    ffi::NumThreadsArgs args{sizeof(args), nullptr, frame->context, &count};
    return refused(frame->api->numThreads(&args)) ? 1 : (long)count;
  }

  bool schedule(void (*task)(void* data), void* data) override {
    ffi::ScheduleArgs args{sizeof(args), nullptr, frame->context, task, data};
    return !refused(frame->api->schedule(&args));
  }
};

ffi::Error* failure(ffi::Frame* frame, const char* message) {
  constexpr int32_t invalidArgument = 3;
  ffi::ErrorCreateArgs args{sizeof(args), nullptr, message, invalidArgument};
  return frame->api->errorCreate(&args);
}

/** A whole number among the attributes; -1 where it is none. */
int64_t wholeAttribute(const ffi::Attributes& attributes, const char* name) {
  constexpr int32_t scalarKind = 3, s64 = 5;
  for (int64_t i = 0; i < attributes.count; i++) {
    const ffi::Name& found = *attributes.names[i];
    if (found.length != std::strlen(name) || std::memcmp(found.at, name, found.length) != 0) continue;
    const auto* scalar = static_cast<const ffi::Scalar*>(attributes.at[i]);
    return attributes.kinds[i] == scalarKind && scalar->type == s64 ? *static_cast<int64_t*>(scalar->value) : -1;
  }
  return -1;
}

/** The bits of `instructionSets`. */
enum : int64_t { hasAvx2 = 1, hasAvx512 = 2, hasAvx512Bf16 = 4 };

int64_t instructionSets() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return hasAvx2;
  return __builtin_cpu_supports("avx512bf16") ? hasAvx2 | hasAvx512 | hasAvx512Bf16 : hasAvx2 | hasAvx512;
}

const Kernels* kernelsOf(const ffi::Frame* frame) {
  const int64_t chosen = wholeAttribute(frame->attributes, "instructions");
  if (chosen <= 0 || !(chosen & instructionSets())) return nullptr;
  if (chosen == hasAvx512Bf16) return &avx512bf16::kernels;
  if (chosen == hasAvx512) return &avx512::kernels;
  return chosen == hasAvx2 ? &avx2::kernels : nullptr;
}

/** Tells the interface's version where that is asked; then the handler has nothing else to do. */
bool toldVersion(ffi::Frame* frame) {
  for (ffi::Extension* at = frame->extensions; at; at = at->next) {
    if (at->type != ffi::metadataExtension) continue;
    ffi::Metadata* metadata = reinterpret_cast<ffi::MetadataExtension*>(at)->metadata;
    // The structs used here are those of minor version 1 and have not changed since.
    metadata->version.major = 0;
    metadata->version.minor = 1;
    return true;
  }
  return false;
}

/** Buffers of these types and ranks. */
struct Expected {
  int32_t type;
  int64_t rank;
};

template <int N>
bool fits(const ffi::Values& values, const Expected (&expected)[N]) {
  if (values.count != N) return false;
  for (int i = 0; i < N; i++)
    if (values.kinds[i] != 1 || values.at[i]->type != expected[i].type || values.at[i]->rank != expected[i].rank)
      return false;
  return true;
}

/** Of q [B, T, N, H] and k [B, T, K, H]; false where the kernels don't take it. */
bool attentionShape(const ffi::Buffer& q, const ffi::Buffer& k, AttentionShape& shape) {
  const int64_t heads = q.dims[2], keyHeads = k.dims[2], dim = q.dims[3];
  if (keyHeads < 1 || heads % keyHeads != 0 || dim % 16 != 0 || dim < 16 || dim > 256) return false;
  if (k.dims[0] != q.dims[0] || k.dims[1] != q.dims[1] || k.dims[3] != dim) return false;
  shape = {q.type == ffi::bf16 ? Type::bf16 : Type::f32, q.dims[0], q.dims[1], keyHeads, heads / keyHeads, dim};
  return true;
}

const char misfit[] = "a native kernel of Halfbyte was called with arguments that it does not take";

ffi::Error* runAttentionForward(ffi::Frame* frame) {
  if (toldVersion(frame)) return nullptr;
  if (frame->stage != ffi::executeStage) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  const int32_t type = in.count == 3 ? in.at[0]->type : 0;
  AttentionShape shape;
  if (!kernels || (type != ffi::bf16 && type != ffi::f32) || !fits(in, {{type, 4}, {type, 4}, {type, 4}}) ||
      !fits(out, {{type, 4}, {ffi::f32, 3}}) || !attentionShape(*in.at[0], *in.at[1], shape))
    return failure(frame, misfit);
  Pool pool(frame);
  const AttentionForward call{shape, in.at[0]->data, in.at[1]->data, in.at[2]->data, out.at[0]->data,
                              static_cast<float*>(out.at[1]->data)};
  return kernels->attentionForward(call, &pool) ? nullptr : failure(frame, "no memory for attention");
}

ffi::Error* runAttentionBackward(ffi::Frame* frame) {
  if (toldVersion(frame)) return nullptr;
  if (frame->stage != ffi::executeStage) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  const auto &in = frame->arguments, &out = frame->results;
  const int32_t type = in.count == 6 ? in.at[0]->type : 0;
  AttentionShape shape;
  if (!kernels || (type != ffi::bf16 && type != ffi::f32) ||
      !fits(in, {{type, 4}, {type, 4}, {type, 4}, {type, 4}, {ffi::f32, 3}, {type, 4}}) ||
      !fits(out, {{type, 4}, {type, 4}, {type, 4}}) || !attentionShape(*in.at[0], *in.at[1], shape))
    return failure(frame, misfit);
  Pool pool(frame);
  const AttentionBackward call{shape,          in.at[0]->data,  in.at[1]->data,
                               in.at[2]->data, in.at[3]->data,  in.at[5]->data,
                               static_cast<const float*>(in.at[4]->data), out.at[0]->data, out.at[1]->data,
                               out.at[2]->data};
  return kernels->attentionBackward(call, &pool) ? nullptr : failure(frame, "no memory for attention");
}

/** int32 a [n] → 3 · a, by all threads: whether calls arrive as they are understood here. */
ffi::Error* runProbe(ffi::Frame* frame) {
  if (toldVersion(frame)) return nullptr;
  if (frame->stage != ffi::executeStage) return nullptr;
  const auto &in = frame->arguments, &out = frame->results;
  if (!kernelsOf(frame) || !fits(in, {{ffi::s32, 1}}) || !fits(out, {{ffi::s32, 1}})) return failure(frame, misfit);
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
    {nullptr, 0, nullptr},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* halfbyte_handlers() { return entries; }

/** As a number in a pointer: the bits of the instruction sets that the kernels can use here. */
extern "C" __attribute__((visibility("default"))) const void* halfbyte_instruction_sets() {
  return reinterpret_cast<const void*>(instructionSets());
}
