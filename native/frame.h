// What every handler needs of a call: its buffers as they are expected, its attributes, its threads, the kernels to use.
#pragma once
#include "ffi.h"
#include "kernels.h"
#include "threads.h"

/** XLA's pool, as long as a call lasts. */
struct Pool : Threads {
  ffi::Frame* frame;

  explicit Pool(ffi::Frame* frame) : frame(frame) {}

  long count() override;
  bool schedule(void (*task)(void* data), void* data) override;
};

/** The error of a kernel that got no memory; XLA, and who called it, tell by its code. */
ffi::Error* outOfMemory(ffi::Frame* frame);

/** The error of a call with other arguments than the program's lowering gives. */
ffi::Error* misfit(ffi::Frame* frame);

/** Whether there is nothing to run: XLA asks for the interface's version, which is then told, or prepares. */
bool isNoRun(ffi::Frame* frame);

/** Of this processor, as bits. */
int64_t instructionSets();

/** Those of the instruction set that the program names; null where the processor has it not. */
const Kernels* kernelsOf(const ffi::Frame* frame);

/**
 * A handler: `read` makes a kernel's call of what XLA passes, or says by false that the kernel does not take it; the kernel then
 * runs on XLA's threads.
 */
template <class Call>
ffi::Error* handle(ffi::Frame* frame, bool (*read)(const ffi::Frame& frame, Call& call),
                   bool (*Kernels::*kernel)(const Call&, Threads*)) {
  if (isNoRun(frame)) return nullptr;
  const Kernels* kernels = kernelsOf(frame);
  Call call;
  if (!kernels || !read(*frame, call)) return misfit(frame);
  Pool pool(frame);
  return (kernels->*kernel)(call, &pool) ? nullptr : outOfMemory(frame);
}

/** A number among the attributes, whole or not; false where there is none of the name. */
bool numberAttribute(const ffi::Frame& frame, const char* name, float& value);

/** Buffer i where there is one of this rank, or of any from 1 on (-1); else null. */
inline const ffi::Buffer* bufferOf(const ffi::Values& values, int64_t i, int64_t rank) {
  if (i >= values.count || values.kinds[i] != 1) return nullptr;
  const ffi::Buffer* buffer = values.at[i];
  return rank < 0 ? (buffer->rank > 0 ? buffer : nullptr) : buffer->rank == rank ? buffer : nullptr;
}

template <class T>
T* dataOf(const ffi::Values& values, int i) {
  return static_cast<T*>(values.at[i]->data);
}

/** A buffer's type and whole shape: kernels compute all addresses from the shape of their first operands. */
struct Expected {
  int32_t type;
  int64_t rank;
  const int64_t* dims;

  Expected(const ffi::Buffer& like) : type(like.type), rank(like.rank), dims(like.dims) {}
  template <int N>
  Expected(int32_t type, const int64_t (&dims)[N]) : type(type), rank(N), dims(dims) {}
  Expected(int32_t type, const ffi::Buffer& like) : type(type), rank(like.rank), dims(like.dims) {}
};

template <int N>
bool fits(const ffi::Values& values, const Expected (&expected)[N]) {
  if (values.count != N) return false;
  for (int i = 0; i < N; i++) {
    const auto& [type, rank, dims] = expected[i];
    if (values.kinds[i] != 1 || values.at[i]->type != type || values.at[i]->rank != rank) return false;
    for (int64_t dim = 0; dim < rank; dim++)
      if (values.at[i]->dims[dim] != dims[dim]) return false;
  }
  return true;
}

/** bf16 or float32; false for others. */
bool floatType(int32_t type, Type& found);

inline int64_t sizeOf(const ffi::Buffer& x) {
  int64_t size = 1;
  for (int64_t i = 0; i < x.rank; i++) size *= x.dims[i];
  return size;
}
