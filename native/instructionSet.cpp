// The kernels of one instruction set.
#include "kernels.h"

namespace HALFBYTE_ISA {

bool attentionForward(const AttentionForward&, Threads*);
bool attentionBackward(const AttentionBackward&, Threads*);
void softmaxLoss(const SoftmaxLoss&, Threads*);
void rmsNormForward(const RmsNormForward&, Threads*);
bool rmsNormBackward(const RmsNormBackward&, Threads*);
void swigluForward(const SwigluForward&, Threads*);
void swigluBackward(const SwigluBackward&, Threads*);
bool sumOfSquares(const SumOfSquares&, Threads*);

extern const Kernels kernels = {attentionForward, attentionBackward, softmaxLoss,    rmsNormForward,
                                rmsNormBackward,  swigluForward,     swigluBackward, sumOfSquares};

}  // namespace HALFBYTE_ISA
