// Sizes and element strides of an LSTM layer, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// The sums over the last h are those of 16 slices: slice s has k = 64 j + 4 s + e, for e below 4, in ascending order.
inline constexpr int kLstmSlices = 16;
inline constexpr int kLstmGroup = 4 * kLstmSlices;  // consecutive k, four a slice

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

/// How lstm_sm90 shares a layer: units of a block (a multiple of 4), items of a cluster, groups of k, and how many of
/// these lie in shared memory.
struct LstmShare {
  int32_t units, items, groups, staged;
};

}  // namespace gpukit
