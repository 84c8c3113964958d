// What this library uses of XLA's foreign function interface (major version 0), as far as structs are laid out alike in all its
// minor versions. Every struct begins with its own size and a list of extensions.
#pragma once
#include <stdint.h>

namespace ffi {

struct Extension {
  uint64_t size;
  int32_t type;
  Extension* next;
};

constexpr int32_t metadataExtension = 1;

struct Version {
  uint64_t size;
  Extension* extensions;
  int32_t major, minor;
};

struct Metadata {
  uint64_t size;
  Version version;
  uint32_t traits;
};

/** Asks a handler which version it speaks, instead of running it. */
struct MetadataExtension {
  Extension head;
  Metadata* metadata;
};

struct Error;
struct Context;

struct ErrorCreateArgs {
  uint64_t size;
  Extension* extensions;
  const char* message;
  int32_t code;
};

struct ErrorDestroyArgs {
  uint64_t size;
  Extension* extensions;
  Error* error;
};

struct ScheduleArgs {
  uint64_t size;
  Extension* extensions;
  Context* context;
  void (*task)(void* data);
  void* data;
};

struct NumThreadsArgs {
  uint64_t size;
  Extension* extensions;
  Context* context;
  int64_t* count;
};

struct Api {
  uint64_t size;
  Extension* extensions;
  Version version;
  void* internal;
  Error* (*errorCreate)(ErrorCreateArgs*);
  void* errorGetMessage;
  void (*errorDestroy)(ErrorDestroyArgs*);
  void *handlerRegister, *streamGet, *typeRegister, *contextGet, *stateSet, *stateGet, *memoryAllocate, *memoryFree;
  Error* (*schedule)(ScheduleArgs*);
  Error* (*numThreads)(NumThreadsArgs*);
};

/** Of the element types. */
constexpr int32_t s32 = 4, f32 = 11, bf16 = 16;

struct Buffer {
  uint64_t size;
  Extension* extensions;
  int32_t type;
  void* data;
  int64_t rank;
  int64_t* dims;
};

/** Arguments or results: all are buffers (kind 1). */
struct Values {
  uint64_t size;
  Extension* extensions;
  int64_t count;
  int32_t* kinds;
  Buffer** at;
};

struct Name {
  const char* at;
  uint64_t length;
};

struct Scalar {
  int32_t type;
  void* value;
};

/** Sorted by name. */
struct Attributes {
  uint64_t size;
  Extension* extensions;
  int64_t count;
  int32_t* kinds;
  Name** names;
  void** at;
};

constexpr int32_t executeStage = 3;

struct Frame {
  uint64_t size;
  Extension* extensions;
  const Api* api;
  Context* context;
  int32_t stage;
  Values arguments, results;
  Attributes attributes;
};

typedef Error* Handler(Frame*);

}  // namespace ffi
