// Between lstm.cpp and its backends: arguments are checked, nothing is empty but the steps, and results share no memory
// with inputs but for states that lie on each other.
#pragma once

#include <functional>
#include <optional>

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

/// An instance of lstm_sm90.
struct LstmForm {
  int blocks, threads, held;  // of a cluster, of a block; groups of k in registers
};
inline constexpr LstmForm kLstmForms[] = {{1, 512, 1}, {8, 256, 4}, {16, 256, 4}, {8, 512, 1}, {16, 512, 1}};

/// A layer by clusters.
struct LstmPlan {
  int form;
  LstmShare share;
  int64_t clusters;  // of a direction
  unsigned threads, shared_bytes;
};

/// `clusters(form)` says how many clusters of a form run at once, 0 where the chip or the session cannot run them: it
/// is asked only of forms that suit. None: by blocks that read all weights in each step.
std::optional<LstmPlan> plan_lstm(const LstmParams& params, int64_t weight_bytes,
                                  const std::function<int(int)>& clusters);
}  // namespace cuda

}  // namespace gpukit
