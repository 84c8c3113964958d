// What XLA calls: a handler checks its call and runs the kernel of the instruction set that the program names, so that a
// program's text decides its bits.
#pragma once
#include "frame.h"

ffi::Error* runAttentionForward(ffi::Frame* frame);
ffi::Error* runAttentionBackward(ffi::Frame* frame);
ffi::Error* runSegmentAttentionForward(ffi::Frame* frame);
ffi::Error* runSegmentAttentionBackward(ffi::Frame* frame);
ffi::Error* runSoftmaxLoss(ffi::Frame* frame);
ffi::Error* runRmsNormForward(ffi::Frame* frame);
ffi::Error* runRmsNormBackward(ffi::Frame* frame);
ffi::Error* runSwigluForward(ffi::Frame* frame);
ffi::Error* runSwigluBackward(ffi::Frame* frame);
ffi::Error* runSumOfSquares(ffi::Frame* frame);
