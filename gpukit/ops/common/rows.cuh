// A row held in the registers of its threads: one read, any number of passes, one write.
#pragma once
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/common/row_params.cuh"

namespace gpukit {

/// This thread's part of a row: N units of V elements. Unit u starts at element first + u * step.
template <typename T, int V>
struct RowPart {
  static constexpr int kUnits = row_elements(sizeof(T), V > 1) / V;
  Vec<T, V> raw[kUnits];
  int64_t row;  // rows past the end are computed as the last one and not written
  int first, step;
  bool active;

  /// Block layout: groups of p.warps warps, or of p.lanes lanes, take one row each.
  GPUKIT_DEVICE explicit RowPart(const RowParams& p, int64_t block) {
    const int threads = p.lanes < 32 ? p.lanes : p.warps * 32;
    const int in_row = threadIdx.x & (threads - 1);
    row = block * (blockDim.x / threads) + threadIdx.x / threads;
    active = row < p.rows;
    if (!active) row = p.rows - 1;
    step = (p.lanes < 32 ? p.lanes : 32) * V;
    first = (in_row >> 5) * (32 * V * kUnits) + (in_row & 31) * V;
  }
  GPUKIT_DEVICE int at(int u) const { return first + u * step; }

  GPUKIT_DEVICE void load(const T* x, const RowParams& p) {
    const T* row_x = x + space_offset(p.rank, p.shape, p.in, row);
    const int width = static_cast<int>(p.width);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int i = at(u) < width ? at(u) : 0;
      if constexpr (V == 1)
        raw[u].v[0] = row_x[i * p.in_step];
      else
        raw[u] = load_vec<T, V>(row_x + i);
    }
  }

  /// The tree over f(element, unit, k). Every thread of the row gets it. All threads of the block must call.
  template <typename Op, typename F>
  GPUKIT_DEVICE typename Op::Acc reduce(const RowParams& p, typename Op::Acc* shared, F&& f) const {
    typename Op::Acc unit[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      typename Op::Acc v[V];
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = f(gpukit::load(raw[u].v[k]), u, k);
      unit[u] = fold<Op, V>(v);
      if (at(u) >= p.width) unit[u] = Op::identity();
    }
    if (p.lanes < 32) return lanes_tree<Op>(unit[0], p.lanes);
    return warps_tree<Op>(warp_tree<Op, kUnits>(unit), p.warps, shared);
  }

  /// Writes f(element, unit, k).
  template <typename F>
  GPUKIT_DEVICE void store(T* out, const RowParams& p, F&& f) const {
    if (!active) return;
    T* row_out = out + space_offset(p.rank, p.shape, p.out, row);
    const int width = static_cast<int>(p.width);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (at(u) < width) {
        Vec<T, V> r;
#pragma unroll
        for (int k = 0; k < V; ++k) r.v[k] = gpukit::store<T>(f(gpukit::load(raw[u].v[k]), u, k));
        if constexpr (V == 1)
          row_out[at(u) * p.out_step] = r.v[0];
        else
          store_vec<T, V>(row_out + at(u), r);
      }
    }
  }
};

/// A row too wide for registers, read anew in every pass by a block of kRowMaxThreads threads.
template <typename T, int V>
struct WideRow {
  static constexpr int kUnits = wide_units(sizeof(T));
  using Raw = Vec<T, V>;
  const T* x;
  int64_t width, in_step;

  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t last) const {
#pragma unroll
    for (int u = 0; u < N; ++u) {
      if constexpr (V == 1)
        raw[u].v[0] = x[at_most(i + u * step, last) * in_step];
      else
        raw[u] = load_vec<T, V>(x + at_most(i + u * step, last));
    }
  }

  template <typename Op, typename F>
  struct Mapped {
    using Raw = Vec<T, V>;
    const WideRow& row;
    F f;
    template <int N>
    GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t last) const {
      row.fetch(raw, i, step, last);
    }
    GPUKIT_DEVICE typename Op::Acc unit(const Raw& raw, int64_t) const {
      typename Op::Acc v[V];
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = f(gpukit::load(raw.v[k]));
      return fold<Op, V>(v);
    }
  };

  /// The tree over f(element). `slots` is kWalkLevels values per warp, `shared` one per warp.
  template <typename Op, typename F>
  GPUKIT_DEVICE typename Op::Acc reduce(const RowParams& p, typename Op::Acc* slots, typename Op::Acc* shared,
                                        F f) const {
    const int warp = threadIdx.x >> 5;
    const Mapped<Op, F> load{*this, f};
    typename Op::Acc v = walk_chunks<Op, V, kUnits>(load, warp * p.chunks_per_warp, p.chunks_per_warp, width,
                                                    slots + warp * kWalkLevels);
    return warps_tree<Op>(v, kRowMaxThreads / 32, shared);
  }

  /// out[i] = f(x[i], i).
  template <typename F>
  GPUKIT_DEVICE void store(T* out, int64_t out_step, F f) const {
    for (int64_t i = threadIdx.x * V; i < width; i += kRowMaxThreads * V) {
      Vec<T, V> raw;
      if constexpr (V == 1)
        raw.v[0] = x[i * in_step];
      else
        raw = load_vec<T, V>(x + i);
#pragma unroll
      for (int k = 0; k < V; ++k) raw.v[k] = gpukit::store<T>(f(gpukit::load(raw.v[k]), i + k));
      if constexpr (V == 1)
        out[i * out_step] = raw.v[0];
      else
        store_vec<T, V>(out + i, raw);
    }
  }
};

template <typename T, bool kVector>
constexpr int row_vector() {
  return kVector ? 16 / sizeof(T) : 1;
}

}  // namespace gpukit
