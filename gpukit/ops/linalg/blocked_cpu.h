// What the steps of blocked factorisations on the CPU share: types, parallel visits, submission.
#pragma once

#include <algorithm>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/linalg/blocked_impl.h"
#include "gpukit/ops/linalg/factor_number.cuh"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

using linalg::minus_product;
using linalg::StepParams;

inline constexpr int64_t kPanelColumns = 32;
inline constexpr int64_t kTileColumns = 128;  // of right sides that a thread solves at a time

template <typename F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: f(float{}); break;
    case DType::float64: f(double{}); break;
    case DType::complex64: f(linalg::Pair<float>{}); break;
    default: f(linalg::Pair<double>{}); break;
  }
}

/// f(batch) in parallel.
template <typename F>
void each_batch(const StepParams& p, F&& f) {
  parallel_for(p.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end && work_wanted(); ++batch) f(batch);
  });
}
/// f(batch, first column, columns) over tiles of columns, in parallel.
template <typename F>
void each_tile(const StepParams& p, F&& f) {
  const int64_t tiles = (p.columns + kTileColumns - 1) / kTileColumns;
  parallel_for(p.batch * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end && work_wanted(); ++at) {
      const int64_t first = at % tiles * kTileColumns;
      f(at / tiles, first, std::min(kTileColumns, p.columns - first));
    }
  });
}
/// f(batch, row) in parallel.
template <typename F>
void each_row(const StepParams& p, F&& f) {
  constexpr int64_t kGrainElements = 1 << 14;
  parallel_for(p.batch * p.rows, std::max<int64_t>(1, kGrainElements / std::max<int64_t>(p.columns, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t at = begin; at < end; ++at) f(at / p.rows, at % p.rows);
               });
}

/// to - factor * from, element by element.
template <typename W>
GPUKIT_ALWAYS_INLINE void take_row(W* to, const W* from, W factor, int64_t count) {
  for (int64_t j = 0; j < count; ++j) to[j] = minus_product(to[j], factor, from[j]);
}

/// Submits work on the addresses of arrays that may not be there: f(zero of the type, addresses).
template <typename F>
void submit(const char* op, const Array& typed, std::initializer_list<memory::Use> uses, F f) {
  with_type(typed.dtype(), [&](auto zero) {
    runtime::run_host(op, typed.device(), uses, [f, zero](void* const* at) { f(zero, at); });
  });
}
template <typename W>
W* matrix(void* all, const linalg::MatrixStrides& strides, int64_t batch) {
  return static_cast<W*>(all) + batch * strides.batch;
}

}  // namespace gpukit::cpu
