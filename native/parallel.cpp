#include "parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>

#include "threads.h"

namespace {

/** Parts that threads claim one after the other. Lives until the last task that the pool may still run has seen it. */
struct Job {
  std::atomic<long> next{0}, done{0}, users;
  std::atomic<bool> good{true};
  const long count;
  bool (*const run)(void*, long);
  void* const context;
  std::mutex mutex;
  std::condition_variable finished;

  Job(long count, bool (*run)(void*, long), void* context, long users)
      : users(users), count(count), run(run), context(context) {}

  void work() {
    for (long i; (i = next.fetch_add(1)) < count;) {
      if (!run(context, i)) good = false;
      if (done.fetch_add(1) + 1 == count) {
        std::lock_guard<std::mutex> lock(mutex);
        finished.notify_all();
      }
    }
  }

  void leave() {
    if (users.fetch_sub(1) == 1) delete this;
  }
};

void task(void* data) {
  Job* job = static_cast<Job*>(data);
  job->work();
  job->leave();
}

}  // namespace

bool parallelFor(Threads* threads, long count, bool (*run)(void* context, long i), void* context) {
  const long helpers = std::min(threads->count(), count) - 1;
  Job* job = helpers > 0 ? new (std::nothrow) Job(count, run, context, helpers + 1) : nullptr;
  if (!job) {
    bool good = true;
    for (long i = 0; i < count; i++) good &= run(context, i);
    return good;
  }
  for (long i = 0; i < helpers; i++)
    if (!threads->schedule(task, job)) job->leave();
  job->work();
  {
    // Only parts that a thread has begun are waited for: nothing depends on the pool having a thread to spare.
    std::unique_lock<std::mutex> lock(job->mutex);
    job->finished.wait(lock, [&] { return job->done.load() == count; });
  }
  const bool good = job->good;
  job->leave();
  return good;
}

namespace {

/** A block that grows, of one thread. */
struct Scratch {
  void* memory = nullptr;
  unsigned long bytes = 0;
  ~Scratch() { std::free(memory); }
};

thread_local Scratch own;

}  // namespace

void* allocate(unsigned long bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }

void release(void* memory) { std::free(memory); }

void* scratch(unsigned long bytes) {
  if (own.bytes < bytes) {
    std::free(own.memory);
    own.memory = allocate(bytes);
    own.bytes = own.memory ? bytes : 0;
  }
  return own.memory;
}
