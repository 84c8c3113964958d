// Memory for XLA's temporaries, preloaded into the process by bin/halfbyte: posix_memalign's blocks of 4 MiB and more, kept and
// reused. XLA takes all temporaries of a step as one block aligned to 64 bytes. glibc keeps a freed block, but asks for about 96 bytes
// more to align the next, or has put something small at its end: the hole does not fit, the heap grows by a whole block, and a step
// takes a second to fault it in. Here sizes are rounded to huge pages in a range that nothing else lives in, so a hole always fits
// what left it. Freed blocks stay resident for the next step.
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLeast = size_t{4} << 20;
constexpr size_t kReserved = size_t{1} << 40;  // Of addresses; pages are taken when they are written.
constexpr size_t kRange = kReserved - kHugePage;
constexpr int kMaxBlocks = 4096;

// Blocks and the holes between them in order of address, together the whole range.
struct Block {
  size_t at, size;
  bool used;
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Block blocks[kMaxBlocks];
int count = 0;
bool refused = false;
char* range = nullptr;  // Aligned to huge pages.

bool reserve() {
  if (range != nullptr || refused) return range != nullptr;
  void* at = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {  // Where addresses are limited; then all is glibc's.
    refused = true;
    return false;
  }
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(at) + kHugePage - 1) & ~(kHugePage - 1);
  madvise(reinterpret_cast<void*>(aligned), kRange, MADV_HUGEPAGE);
  blocks[0] = {0, kRange, false};
  count = 1;
  __atomic_store_n(&range, reinterpret_cast<char*>(aligned), __ATOMIC_RELEASE);
  return true;
}

void insertAt(int index, Block block) {
  memmove(blocks + index + 1, blocks + index, (count - index) * sizeof(Block));
  blocks[index] = block;
  count++;
}

void removeAt(int index) {
  count--;
  memmove(blocks + index, blocks + index + 1, (count - index) * sizeof(Block));
}

// First fit, so that what is used stays together; null where nothing fits.
void* take(size_t size) {
  if (size > kRange) return nullptr;
  size = (size + kHugePage - 1) & ~(kHugePage - 1);
  void* found = nullptr;
  pthread_mutex_lock(&lock);
  if (reserve() && count < kMaxBlocks) {
    for (int i = 0; i < count; i++) {
      if (blocks[i].used || blocks[i].size < size) continue;
      if (blocks[i].size > size) insertAt(i + 1, {blocks[i].at + size, blocks[i].size - size, false});
      blocks[i] = {blocks[i].at, size, true};
      found = range + blocks[i].at;
      break;
    }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

bool isOurs(const void* pointer) {
  const char* from = __atomic_load_n(&range, __ATOMIC_ACQUIRE);
  const char* at = static_cast<const char*>(pointer);
  return from != nullptr && at >= from && at < from + kRange;
}

// The block that begins at a pointer, under the lock. What is no block is an error of the caller's, as glibc's free treats it.
int indexOf(const void* pointer) {
  const size_t at = static_cast<const char*>(pointer) - range;
  for (int i = 0; i < count; i++) {
    if (blocks[i].at == at && blocks[i].used) return i;
  }
  abort();
}

size_t sizeOf(const void* pointer) {
  pthread_mutex_lock(&lock);
  const size_t size = blocks[indexOf(pointer)].size;
  pthread_mutex_unlock(&lock);
  return size;
}

void giveBack(const void* pointer) {
  pthread_mutex_lock(&lock);
  const int i = indexOf(pointer);
  blocks[i].used = false;
  if (i + 1 < count && !blocks[i + 1].used) {
    blocks[i].size += blocks[i + 1].size;
    removeAt(i + 1);
  }
  if (i > 0 && !blocks[i - 1].used) {
    blocks[i - 1].size += blocks[i].size;
    removeAt(i);
  }
  pthread_mutex_unlock(&lock);
}

// The C library's function of a name that one of ours stands before; `found` keeps it.
template <typename Function>
Function* next(Function** found, const char* name) {
  Function* function = __atomic_load_n(found, __ATOMIC_RELAXED);
  if (function == nullptr) {
    function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    __atomic_store_n(found, function, __ATOMIC_RELAXED);
  }
  return function;
}

decltype(posix_memalign)* nextPosixMemalign = nullptr;
decltype(free)* nextFree = nullptr;
decltype(realloc)* nextRealloc = nullptr;
decltype(malloc_usable_size)* nextUsableSize = nullptr;

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  const bool valid = alignment >= sizeof(void*) && (alignment & (alignment - 1)) == 0;
  if (valid && size >= kLeast && alignment <= kHugePage) {
    if (void* block = take(size)) {
      *out = block;
      return 0;
    }
  }
  return next(&nextPosixMemalign, "posix_memalign")(out, alignment, size);
}

EXPORTED void free(void* pointer) noexcept {
  if (!isOurs(pointer)) return next(&nextFree, "free")(pointer);
  const int error = errno;
  giveBack(pointer);
  errno = error;
}

EXPORTED void* realloc(void* pointer, size_t size) noexcept {
  if (!isOurs(pointer)) return next(&nextRealloc, "realloc")(pointer, size);
  if (size == 0) {
    giveBack(pointer);
    return nullptr;
  }
  void* moved = malloc(size);
  if (moved == nullptr) return nullptr;
  const size_t kept = sizeOf(pointer);
  memcpy(moved, pointer, kept < size ? kept : size);
  giveBack(pointer);
  return moved;
}

EXPORTED size_t malloc_usable_size(void* pointer) noexcept {
  return isOurs(pointer) ? sizeOf(pointer) : next(&nextUsableSize, "malloc_usable_size")(pointer);
}
