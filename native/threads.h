// The pool of threads behind `parallelFor`.
#pragma once

struct Threads {
  virtual long count() = 0;
  /** Whether the task will be run. */
  virtual bool schedule(void (*task)(void* data), void* data) = 0;
  virtual ~Threads() = default;
};
