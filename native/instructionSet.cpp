// The kernels of one instruction set.
#include "kernels.h"

namespace HALFBYTE_ISA {

bool attentionForward(const AttentionForward&, Threads*);
bool attentionBackward(const AttentionBackward&, Threads*);
bool softmaxLoss(const SoftmaxLoss&, Threads*);
bool rmsNormForward(const RmsNormForward&, Threads*);
bool rmsNormBackward(const RmsNormBackward&, Threads*);
bool swigluForward(const SwigluForward&, Threads*);
bool swigluBackward(const SwigluBackward&, Threads*);
bool sumOfSquares(const SumOfSquares&, Threads*);

extern const Kernels kernels = {attentionForward, attentionBackward, softmaxLoss,    rmsNormForward,
                                rmsNormBackward,  swigluForward,     swigluBackward, sumOfSquares};

}  // namespace HALFBYTE_ISA
