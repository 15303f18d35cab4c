// Sums over the bins of a frame and what they say.
#pragma once
#include "gpukit/ops/audio/lanes.cuh"

namespace gpukit {

struct BinParams {
  int64_t bins;
  float bin_hz, value;  // value: the exponent, or the part of the sum
};

/// A row of `a`, whose index is `index`.
struct BinRow {
  int64_t width, first, index;
};

struct TwoSums {
  float x, y;
};
GPUKIT_DEVICE TwoSums add_sums(TwoSums a, TwoSums b) { return {a.x + b.x, a.y + b.y}; }
GPUKIT_DEVICE float share(float part, float whole) { return whole == 0.0f ? 0.0f : part / whole; }

struct SpectralCentroid {
  using Value = float;
  using Params = BinParams;
  using Sums = TwoSums;
  using Row = BinRow;
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) { return {p.bins, index * p.bins, index}; }
  static GPUKIT_DEVICE Sums none() { return {0.0f, 0.0f}; }
  static GPUKIT_DEVICE void add(Sums& sums, const Row& row, int64_t i, const float* a, const float*, const float*,
                                const Params& p) {
    const float x = a[row.first + i];
    sums.x += x * (static_cast<float>(i) * p.bin_hz);
    sums.y += x;
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return add_sums(x, y); }
  static GPUKIT_DEVICE float finish(Sums sums, const Row&, const float*, const float*, const float*, const Params&) {
    return share(sums.x, sums.y);
  }
};

/// The centroids are `b`.
struct SpectralBandwidth {
  using Value = float;
  using Params = BinParams;
  using Sums = TwoSums;
  using Row = BinRow;
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) { return {p.bins, index * p.bins, index}; }
  static GPUKIT_DEVICE Sums none() { return {0.0f, 0.0f}; }
  static GPUKIT_DEVICE void add(Sums& sums, const Row& row, int64_t i, const float* a, const float* b, const float*,
                                const Params& p) {
    const float x = a[row.first + i], away = fabsf(static_cast<float>(i) * p.bin_hz - b[row.index]);
    sums.x += x * (p.value == 2.0f ? away * away : powf(away, p.value));
    sums.y += x;
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return add_sums(x, y); }
  static GPUKIT_DEVICE float finish(Sums sums, const Row&, const float*, const float*, const float*, const Params& p) {
    const float mean = share(sums.x, sums.y);
    return p.value == 2.0f ? sqrtf(mean) : powf(mean, 1.0f / p.value);
  }
};

/// `a` has the running sums of the frame.
struct SpectralRolloff {
  using Value = float;
  using Params = BinParams;
  struct Sums {
    int64_t first;
  };
  using Row = BinRow;
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) { return {p.bins, index * p.bins, index}; }
  static GPUKIT_DEVICE Sums none() { return {0x7fffffffffffffff}; }
  static GPUKIT_DEVICE void add(Sums& sums, const Row& row, int64_t i, const float* a, const float*, const float*,
                                const Params& p) {
    const float* sum = a + row.first;
    if (sum[i] >= p.value * sum[p.bins - 1] && i < sums.first) sums.first = i;
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return x.first < y.first ? x : y; }
  static GPUKIT_DEVICE float finish(Sums sums, const Row& row, const float* a, const float*, const float*,
                                    const Params& p) {
    const float total = a[row.first + p.bins - 1];
    return sums.first < p.bins ? static_cast<float>(sums.first) * p.bin_hz : total - total;
  }
};

struct SpectralFlatness {
  using Value = float;
  using Params = BinParams;
  using Sums = TwoSums;
  using Row = BinRow;
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) { return {p.bins, index * p.bins, index}; }
  static GPUKIT_DEVICE Sums none() { return {0.0f, 0.0f}; }
  static GPUKIT_DEVICE void add(Sums& sums, const Row& row, int64_t i, const float* a, const float*, const float*,
                                const Params&) {
    const float given = a[row.first + i], x = given < 1e-10f ? 1e-10f : given;
    sums.x += logf(x);
    sums.y += x;
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return add_sums(x, y); }
  static GPUKIT_DEVICE float finish(Sums sums, const Row&, const float*, const float*, const float*, const Params& p) {
    const float count = static_cast<float>(p.bins);
    return expf(sums.x / count) / (sums.y / count);
  }
};

struct ContrastParams {
  int64_t bins;
  int32_t bands;
  int32_t begin[16], end[16], count[16];  // the bins of each band; how many make a peak
};

/// Row [frame, band]: the means of the smallest and of the largest bins of the band, which are found by their ranks.
struct SpectralContrast {
  using Value = float;
  using Params = ContrastParams;
  using Sums = TwoSums;
  struct Row {
    int64_t width, first, count;
  };
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) {
    const int64_t band = index % p.bands;
    return {p.end[band] - p.begin[band], index / p.bands * p.bins + p.begin[band], p.count[band]};
  }
  static GPUKIT_DEVICE Sums none() { return {0.0f, 0.0f}; }
  static GPUKIT_DEVICE void add(Sums& sums, const Row& row, int64_t i, const float* a, const float*, const float*,
                                const Params&) {
    const float* x = a + row.first;
    int64_t rank = 0;
    for (int64_t k = 0; k < row.width; ++k) rank += x[k] < x[i] || (x[k] == x[i] && k < i) ? 1 : 0;
    if (rank < row.count || x[i] != x[i]) sums.x += x[i];
    if (rank >= row.width - row.count || x[i] != x[i]) sums.y += x[i];
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return add_sums(x, y); }
  static GPUKIT_DEVICE float decibels(float x) { return 10.0f * log10f(x < 1e-10f ? 1e-10f : x); }
  static GPUKIT_DEVICE float finish(Sums sums, const Row& row, const float*, const float*, const float*,
                                    const Params&) {
    const float count = static_cast<float>(row.count);
    return decibels(sums.y / count) - decibels(sums.x / count);
  }
};

struct CrossingParams {
  int64_t n, frames, size, hop;
};

struct ZeroCrossings {
  using Value = float;
  using Params = CrossingParams;
  using Sums = int32_t;
  struct Row {
    int64_t width, first;
  };
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) {
    return {p.size - 1, index / p.frames * p.n + index % p.frames * p.hop};
  }
  static GPUKIT_DEVICE Sums none() { return 0; }
  static GPUKIT_DEVICE void add(Sums& sums, const Row& row, int64_t i, const float* a, const float*, const float*,
                                const Params&) {
    const float* x = a + row.first + i;
    sums += (x[0] < 0.0f) != (x[1] < 0.0f) ? 1 : 0;
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return x + y; }
  static GPUKIT_DEVICE float finish(Sums sums, const Row&, const float*, const float*, const float*, const Params& p) {
    return static_cast<float>(sums) / static_cast<float>(p.size - 1);
  }
};

}  // namespace gpukit
