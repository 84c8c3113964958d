// Σ x² in float64, of which no float32 overflows or vanishes.
#include "kernels.h"
#include "vectors.h"

namespace HALFBYTE_ISA {
namespace {

typedef float Floats __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(64)));

constexpr long partSize = 1 << 16, width = 8, streams = 4;

struct Job {
  const SumOfSquares& call;
  double* sums;
};

double sumOfPart(const float* x, long count) {
  Doubles sums[streams] = {};
  long i = 0;
  for (; i + streams * width <= count; i += streams * width)
#pragma GCC unroll 4
    for (long j = 0; j < streams; j++) {
      Floats values;
      __builtin_memcpy(&values, x + i + j * width, sizeof values);
      const Doubles wide = __builtin_convertvector(values, Doubles);
      sums[j] += wide * wide;
    }
  double rest = 0;
  for (; i < count; i++) rest += (double)x[i] * x[i];
  const Doubles all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (long j = 0; j < width; j++) rest += all[j];
  return rest;
}

}  // namespace

bool sumOfSquares(const SumOfSquares& call, Threads* threads) {
  // Parts of a fixed size, added in order: the same bits with any number of threads.
  const long parts = (call.size + partSize - 1) / partSize;
  double* sums = (double*)allocate((parts + 1) * sizeof(double));
  if (!sums) return false;
  Job job{call, sums};
  parallelFor(
      threads, parts,
      [](void* context, long part) {
        const auto& [call, sums] = *(const Job*)context;
        const long from = part * partSize, left = call.size - from;
        sums[part] = sumOfPart(call.x + from, left < partSize ? left : partSize);
        return true;
      },
      &job);
  double sum = 0;
  for (long part = 0; part < parts; part++) sum += sums[part];
  *call.sum = sum;
  release(sums);
  return true;
}

}  // namespace HALFBYTE_ISA
