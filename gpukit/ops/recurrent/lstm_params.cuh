// Sizes and element strides of an LSTM layer, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// Of one direction.
struct LstmWeightStrides {
  int64_t row, unit, b_ih, b_hh;
};
struct LstmStateStrides {
  int64_t direction, batch, unit;
};

/// The inputs' part of the gates is [directions, batch, steps, 4 hidden], contiguous.
struct LstmParams {
  int64_t directions, batch, steps, hidden;
  bool reversed[2];
  int64_t out_batch, out_step, out_unit;
  LstmWeightStrides weights[2];
  LstmStateStrides h0, c0, h_n, c_n;
};

}  // namespace gpukit
