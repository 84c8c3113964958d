// The kernels of one instruction set.
#include "kernels.h"

namespace HALFBYTE_ISA {

bool attentionForward(const AttentionForward&, Threads*);
bool attentionBackward(const AttentionBackward&, Threads*);

extern const Kernels kernels = {attentionForward, attentionBackward};

}  // namespace HALFBYTE_ISA
