#include "frame.h"

#include <cstring>

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

/** Whether there was an error, which is freed. */
bool refused(const ffi::Frame* frame, ffi::Error* error) {
  if (!error) return false;
  ffi::ErrorDestroyArgs args{sizeof(args), nullptr, error};
  frame->api->errorDestroy(&args);
  return true;
}

/** The bits of `instructionSets`. */
enum : int64_t { hasAvx2 = 1, hasAvx512 = 2, hasAvx512Bf16 = 4 };

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

ffi::Error* failure(ffi::Frame* frame, int32_t code, const char* message) {
  ffi::ErrorCreateArgs args{sizeof(args), nullptr, message, code};
  return frame->api->errorCreate(&args);
}

}  // namespace

long Pool::count() {
  int64_t count = 1;
  ffi::NumThreadsArgs args{sizeof(args), nullptr, frame->context, &count};
  return refused(frame, frame->api->numThreads(&args)) ? 1 : (long)count;
}

bool Pool::schedule(void (*task)(void* data), void* data) {
  ffi::ScheduleArgs args{sizeof(args), nullptr, frame->context, task, data};
  return !refused(frame, frame->api->schedule(&args));
}

ffi::Error* outOfMemory(ffi::Frame* frame) {
  constexpr int32_t resourceExhausted = 8;
  return failure(frame, resourceExhausted, "out of memory: none for the temporaries of a native kernel of Halfbyte");
}

ffi::Error* misfit(ffi::Frame* frame) {
  constexpr int32_t invalidArgument = 3;
  return failure(frame, invalidArgument, "a native kernel of Halfbyte was called with arguments that it does not take");
}

bool isNoRun(ffi::Frame* frame) { return toldVersion(frame) || frame->stage != ffi::executeStage; }

int64_t instructionSets() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return hasAvx2;
  return __builtin_cpu_supports("avx512bf16") ? hasAvx2 | hasAvx512 | hasAvx512Bf16 : hasAvx2 | hasAvx512;
}

bool numberAttribute(const ffi::Frame& frame, const char* name, float& value) {
  constexpr int32_t scalarKind = 3, s64 = 5, f64 = 12;
  const ffi::Attributes& attributes = frame.attributes;
  for (int64_t i = 0; i < attributes.count; i++) {
    const ffi::Name& found = *attributes.names[i];
    if (found.length != std::strlen(name) || std::memcmp(found.at, name, found.length) != 0) continue;
    const auto* scalar = static_cast<const ffi::Scalar*>(attributes.at[i]);
    if (attributes.kinds[i] != scalarKind || (scalar->type != s64 && scalar->type != f64)) return false;
    value = scalar->type == f64 ? (float)*static_cast<double*>(scalar->value) : (float)*static_cast<int64_t*>(scalar->value);
    return true;
  }
  return false;
}

const Kernels* kernelsOf(const ffi::Frame* frame) {
  float named = 0;
  if (!numberAttribute(*frame, "instructions", named)) return nullptr;
  const int64_t chosen = (int64_t)named;
  if (!(chosen & instructionSets())) return nullptr;
  if (chosen == hasAvx512Bf16) return &avx512bf16::kernels;
  if (chosen == hasAvx512) return &avx512::kernels;
  return chosen == hasAvx2 ? &avx2::kernels : nullptr;
}

bool floatType(int32_t type, Type& found) {
  found = type == ffi::bf16 ? Type::bf16 : Type::f32;
  return type == ffi::bf16 || type == ffi::f32;
}
