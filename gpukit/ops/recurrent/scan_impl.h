// Between scan.cpp and its backends: arguments are checked, nothing is empty but the length, results share no memory
// with what is read.
#pragma once

#include "gpukit/ops/recurrent/scan.h"
#include "gpukit/ops/recurrent/scan_params.cuh"

namespace gpukit {

/// bias and state may be undefined.
struct CausalConvCall {
  Array out, x, weight, bias, state;
  CausalConvParams params;
};

/// d, z, delta_bias and state may be undefined.
struct SelectiveScanCall {
  Array out, x, delta, a, b, c, d, z, delta_bias, state;
  SelectiveScanParams params;
};

namespace cpu {
void causal_conv1d(const CausalConvCall& call);
void selective_scan(const SelectiveScanCall& call);
}  // namespace cpu
namespace cuda {
void causal_conv1d(const CausalConvCall& call);
void selective_scan(const SelectiveScanCall& call);
}  // namespace cuda

}  // namespace gpukit
