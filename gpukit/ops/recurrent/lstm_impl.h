// Between lstm.cpp and its backends: arguments are checked, nothing is empty but the steps, and results share no memory
// with inputs but for states that lie on each other.
#pragma once

#include "gpukit/ops/recurrent/lstm.h"
#include "gpukit/ops/recurrent/lstm_params.cuh"

namespace gpukit {

/// `gates` is of the compute type. The second direction's arrays are those of the first where there is one only.
struct LstmCall {
  const char* op;
  Array out, h_n, c_n, gates;
  LstmWeights weights[2];
  Array h0, c0;  // may be undefined
  LstmParams params;
};

namespace cpu {
void lstm(const LstmCall& call);
}  // namespace cpu
namespace cuda {
void lstm(const LstmCall& call);
}  // namespace cuda

}  // namespace gpukit
