// Between conv.cpp and its backends: arguments are checked, the result is not empty and shares no memory with an input.
#pragma once

#include "gpukit/ops/conv/conv.h"
#include "gpukit/ops/conv/conv_space.cuh"

namespace gpukit {

/// bias may be undefined; so may be `out`, dense then, of a call that is only explained.
struct ConvCall {
  const char* op;
  Array out, input, weight, bias;
  ConvSpace space;
  bool tf32;  // float32 may be rounded to it
};

namespace cpu {
void conv(const ConvCall& call);
}  // namespace cpu
namespace cuda {
void conv(const ConvCall& call);
/// The kernel that would be launched, in words.
std::string explain_conv(const ConvCall& call);
}  // namespace cuda

}  // namespace gpukit
