// What the kernels read and write. There is one of each for every instruction set.
#pragma once
#include "parallel.h"

enum class Type { bf16, f32 };

/** q, out and their cotangents are [batch, time, keyHeads · group, dim]; k and v [batch, time, keyHeads, dim]. */
struct AttentionShape {
  Type type;
  long batch, time, keyHeads, group, dim;
};

struct AttentionForward {
  AttentionShape shape;
  const void *q, *k, *v;
  void* out;
  /** [batch · keyHeads, time · group] */
  float* logSumExp;
};

struct AttentionBackward {
  AttentionShape shape;
  const void *q, *k, *v, *out, *ct;
  const float* logSumExp;
  void *dq, *dk, *dv;
};

struct Kernels {
  /** False where memory is short. */
  bool (*attentionForward)(const AttentionForward&, Threads*);
  bool (*attentionBackward)(const AttentionBackward&, Threads*);
};
