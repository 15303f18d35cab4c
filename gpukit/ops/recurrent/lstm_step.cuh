// What every kernel of an LSTM does alike: slices of the sums over the last h, gates and cells.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/common/vec.cuh"
#include "gpukit/ops/recurrent/lstm_params.cuh"

namespace gpukit {

GPUKIT_DEVICE float step_sum(float sum, float a, float b) { return __fmaf_rn(a, b, sum); }
GPUKIT_DEVICE double step_sum(double sum, double a, double b) { return __fma_rn(a, b, sum); }

/// sigmoid(x), or tanh(x) of a cell's input: one exponential and one reciprocal for both, as lanes of a warp differ.
GPUKIT_DEVICE float lstm_gate(float x, bool cell) {
  const float e = exp2_normal(fabsf(x) * (cell ? -2.0f * kLog2E : -kLog2E));
  const float r = reciprocal_normal(1.0f + e);
  const float bent = fabsf(x) < kTanhNear ? tanh_near(x) : copysignf((1.0f - e) * r, x);
  return cell ? bent : x >= 0.0f ? r : e * r;
}
GPUKIT_DEVICE double lstm_gate(double x, bool cell) { return cell ? tanh(x) : 1.0 / (1.0 + exp(-x)); }

/// c from the last one and three gates.
template <typename T, typename C>
GPUKIT_DEVICE C next_cell(C c, C input, C forget, C cell) {
  return load(store<T>(step_sum(forget * c, input, cell)));
}
template <typename T, typename C>
GPUKIT_DEVICE T next_state(C c, C output) {
  return store<T>(output * lstm_gate(c, true));
}

/// The recurrent weights of one direction.
template <typename T>
struct LstmWeightsView {
  const T* data;
  LstmWeightStrides strides;
  int64_t hidden;
  bool vectors;  // four neighbours of a row can be read at once

  GPUKIT_DEVICE LstmWeightsView(const T* w, const LstmWeightStrides& s, int64_t hidden)
      : data(w),
        strides(s),
        hidden(hidden),
        vectors(s.unit == 1 && s.row % 4 == 0 && hidden % 4 == 0 &&
                reinterpret_cast<uint64_t>(w) % (4 * sizeof(T)) == 0) {}
  /// Columns k to k + 3 of a gate's row; zeros outside of the matrix.
  GPUKIT_DEVICE Vec<T, 4> quad(int gate, int64_t unit, int64_t k) const {
    Vec<T, 4> q{};
    if (unit >= hidden || k >= hidden) return q;
    const T* const row = data + (gate * hidden + unit) * strides.row;
    if (vectors) return load_vec<T, 4>(row + k);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (k + e < hidden) q.v[e] = row[(k + e) * strides.unit];
    return q;
  }
};

template <typename T>
GPUKIT_DEVICE compute_t<T> lstm_bias(const T* b_ih, const T* b_hh, const LstmWeightStrides& s, int64_t row) {
  using C = compute_t<T>;
  return (b_ih == nullptr ? C(0) : load(b_ih[row * s.b_ih])) + (b_hh == nullptr ? C(0) : load(b_hh[row * s.b_hh]));
}

}  // namespace gpukit
