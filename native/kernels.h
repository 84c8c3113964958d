// What the kernels read and write. There is one of each for every instruction set.
#pragma once
#include <stdint.h>

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
  /** [batch, time]: the first position that each position sees; null: the first of all. */
  const int32_t* starts;
};

struct AttentionBackward {
  AttentionShape shape;
  const void *q, *k, *v, *out, *ct;
  const float* logSumExp;
  void *dq, *dk, *dv;
  /** As of the forward direction. */
  const int32_t* starts;
};

/** Of logits [rows, vocabulary]: losses [rows], each times its weight, and their gradient in `type`. */
struct SoftmaxLoss {
  Type type;
  long rows, vocabulary;
  float zLoss;
  const float* logits;
  const int32_t* targets;
  const float* weights;
  float* losses;
  void* gradient;
};

/** x, out and their cotangents are [rows, width] of `type`, weights float32 [width]; width is a multiple of 16. */
struct RmsNormForward {
  Type type;
  long rows, width;
  float eps;
  const void* x;
  const float* weight;
  void* out;
};

struct RmsNormBackward {
  Type type;
  long rows, width;
  float eps;
  const void* x;
  const float* weight;
  const void* ct;
  void* dx;
  float* dWeight;
};

/** All arrays have `size` elements, a multiple of 16. */
struct SwigluForward {
  Type type;
  long size;
  const void *gate, *up;
  void* out;
};

struct SwigluBackward {
  Type type;
  long size;
  const void *gate, *up, *ct;
  void *dGate, *dUp;
};

struct SumOfSquares {
  long size;
  const float* x;
  double* sum;
};

/** Each gives false where memory is short; its results then mean nothing. */
struct Kernels {
  bool (*attentionForward)(const AttentionForward&, Threads*);
  bool (*attentionBackward)(const AttentionBackward&, Threads*);
  bool (*softmaxLoss)(const SoftmaxLoss&, Threads*);
  bool (*rmsNormForward)(const RmsNormForward&, Threads*);
  bool (*rmsNormBackward)(const RmsNormBackward&, Threads*);
  bool (*swigluForward)(const SwigluForward&, Threads*);
  bool (*swigluBackward)(const SwigluBackward&, Threads*);
  bool (*sumOfSquares)(const SumOfSquares&, Threads*);
};
