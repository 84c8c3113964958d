// What a program sees of the allocator of large blocks: run with it preloaded. Ends with 0, or names what does not hold.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <thread>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;

void require(bool holds, const char* what) {
  if (holds) return;
  printf("does not hold: %s\n", what);
  exit(1);
}

char* take(size_t size, size_t alignment = 64) {
  void* block = nullptr;
  require(posix_memalign(&block, alignment, size) == 0, "memory is given");
  require(reinterpret_cast<uintptr_t>(block) % alignment == 0, "it is aligned");
  return static_cast<char*>(block);
}

size_t residentBytes() {
  FILE* file = fopen("/proc/self/statm", "r");
  size_t all = 0, resident = 0;
  require(fscanf(file, "%zu %zu", &all, &resident) == 2, "statm is readable");
  fclose(file);
  return resident * 4096;
}

void reuse() {
  char* first = take(40 * kMiB + 100);
  memset(first, 1, 40 * kMiB);
  require(malloc_usable_size(first) >= 40 * kMiB + 100, "the size that is usable is what was asked for");
  free(first);
  std::vector<void*> small;
  for (int i = 0; i < 1000; i++) small.push_back(malloc(1000));
  const size_t before = residentBytes();
  char* again = take(40 * kMiB + 100);
  require(again == first, "a hole serves what left it, whatever small things came between");
  memset(again, 2, 40 * kMiB);
  require(residentBytes() < before + kMiB, "its pages are there already");
  free(again);
  for (void* block : small) free(block);
}

void joined() {
  char* blocks[3] = {take(8 * kMiB), take(8 * kMiB), take(8 * kMiB)};
  free(blocks[0]);
  free(blocks[2]);
  free(blocks[1]);
  char* whole = take(24 * kMiB);
  require(whole == blocks[0], "neighbouring holes become one");
  free(whole);
}

void resized() {
  char* block = take(8 * kMiB);
  for (size_t i = 0; i < 8 * kMiB; i++) block[i] = static_cast<char>(i * 31);
  block = static_cast<char*>(realloc(block, 12 * kMiB));
  for (size_t i = 0; i < 8 * kMiB; i++) require(block[i] == static_cast<char>(i * 31), "realloc keeps contents");
  free(block);
  require(realloc(take(8 * kMiB), 0) == nullptr, "realloc to nothing frees");
}

void edges() {
  free(nullptr);
  void* block = nullptr;
  require(posix_memalign(&block, 48, 8 * kMiB) == EINVAL, "alignments are powers of two");
  require(posix_memalign(&block, 64, SIZE_MAX - 100) == ENOMEM, "what is too large is refused");
  free(take(100, 4096));
  free(take(8 * kMiB, 2 * kMiB));
  free(take(8 * kMiB, 4 * kMiB));
  std::vector<char*> many;
  for (int i = 0; i < 5000; i++) many.push_back(take(4 * kMiB));
  for (char* each : many) free(each);
}

void threads() {
  std::vector<std::thread> all;
  for (int thread = 0; thread < 4; thread++) {
    all.emplace_back([thread] {
      for (int i = 0; i < 2000; i++) {
        const size_t size = (4 + (i * 7 + thread) % 9) * kMiB;
        char* block = take(size);
        block[0] = block[size - 1] = static_cast<char>(thread);
        require(block[0] == thread && block[size - 1] == thread, "no other thread has the block");
        free(block);
      }
    });
  }
  for (std::thread& each : all) each.join();
}

}  // namespace

int main() {
  reuse();
  joined();
  resized();
  edges();
  threads();
  return 0;
}
