// What the parts of a product on tensor cores cost, as measured on an H200 over shapes, tiles and clusters drawn at
// random (bench/notes/dense-tiles.md). Plans compare instances by these; no bit of a result depends on them.
#pragma once

#include <cmath>
#include <cstdint>

#include "gpukit/ops/common/quant.cuh"

namespace gpukit::cuda::h200 {

inline constexpr double kTensorNs = 0.0196;      // of a slice, for each element of a tile
inline constexpr double kSliceNs = 150;          // of a slice, however small: barriers and the way from the L2
inline constexpr double kBytesPerNsOfOne = 133;  // into one multiprocessor
inline constexpr double kDramBytesPerNs = 3505;  // both operands, once
inline constexpr double kTileNs = 207, kElementNs = 0.0944;  // after a tile, and for each of its elements
inline constexpr double kSwapped = 0.985;                    // tiles that are stored transposed, beside others

/// From the L2, by where rows start: at multiples of 128 bytes, of 32 (a sector), or of 16, where a slice of a row lies
/// in two lines and five sectors.
inline double l2_bytes_per_ns(int64_t pitch_bytes) {
  return pitch_bytes % 128 == 0 ? 17143 : pitch_bytes % 32 == 0 ? 10350 : 6813;
}

/// Costs that hide behind each other, but not wholly.
inline double beside(double a, double b, double c, double d, double e) {
  const auto fourth = [](double v) { return v * v * v * v; };
  return std::sqrt(std::sqrt(fourth(a) + fourth(b) + fourth(c) + fourth(d) + fourth(e)));
}

// Quantised weights by many rows (dequant_gemm_sm90.cuh).

inline constexpr double kMemory = 4.2e6;                      // bytes a microsecond
inline constexpr double kStart = 4.2, kStartOfCluster = 7.5;  // microseconds of a launch, its first loads and its end

/// The sums of chains of two warpgroups: as those of a cluster of group_scaled_split_k_sm90. Not measured here.
inline constexpr double kEndOfWays = 1.2;

/// Microseconds that a tile takes for 128 of k by int4, by its warpgroups and columns.
struct StepTime {
  int columns;
  double of_one, of_two;
};
inline constexpr StepTime kStepTimes[] = {{16, 0.45, 0.60},  {32, 0.49, 0.65},  {64, 0.53, 0.73}, {96, 0.60, 0.85},
                                          {128, 0.64, 0.94}, {160, 0.69, 1.06}, {192, 0.75, 1.15}};
/// The same of other weights, beside int4.
constexpr double beside_int4(Code weights, int group) {
  if (weights == Code::int8) return 0.90;
  if (weights == Code::float8_e4m3) return group == 0 ? 0.95 : 1.07;
  return weights == Code::float4_e2m1 ? 1.03 : group == 128 ? 1.0 : group == 64 ? 1.1 : 1.3;
}

/// Multiprocessors that clusters of so many blocks fill: those of a cluster are neighbours.
constexpr int filled(int blocks, int sm_count) {
  return blocks == 4 ? sm_count * 120 / 132 : blocks == 5 ? sm_count * 110 / 132 : sm_count;
}

// Quantised weights whose scales change along k, by up to 32 rows (group_scaled_split_k_sm90.cuh): nanoseconds of a
// stage however small it is, of each chain in it, until its bytes begin to arrive, and of a cluster's sums at the end.

inline constexpr double kSplitKStageNs = 300.0, kSplitKChainNs = 165.0, kSplitKLoadNs = 30.0, kSplitKClusterNs = 1200.0;
/// Of a stage, for each 16 weights of a warp.
constexpr double split_k_warp_ns(Code weights) {
  return weights == Code::int4 ? 75.0 : weights == Code::float4_e2m1 ? 130.0 : 0.0;
}

// Weights of 8 bits by 32 rows and more (w8a16_sm90.cuh).

inline constexpr double kStartOfW8A16 = 5.0;  // microseconds

// bfloat16 as two float8 numbers (w8a16_fp8x2_sm90.cuh), in cycles of a multiprocessor.

inline constexpr int kFp8x2InFlight = 96 * 1024;  // bytes of weights on their way to a multiprocessor: more are slower
inline constexpr double kFp8x2Memory = 18.5 * 132;  // bytes a cycle
inline constexpr double kFp8x2Chain = 130.0, kFp8x2Group = 77.0, kFp8x2Warpgroup = 160.0, kFp8x2Column = 6.0;
inline constexpr double kFp8x2Alone = 250.0, kFp8x2Cluster = 800.0,
                        kFp8x2Round = 4000.0;  // of clusters, which start anew

/// Where that kernel is the default. One row by 16 million weights took longer than by dequant_gemv. A multiprocessor
/// has up to 144 rows of weights in one round, or up to 224 at some cost: 32 rows by 218 of these were faster than by
/// w8a16_sm90, by 167 slower.
constexpr bool fp8x2_pays(int64_t n, int64_t k) {
  constexpr int64_t kMinWeights = 48'000'000, kMost = 19'000, kLeastOfWide = 26'400, kMostOfWide = 29'568;
  return (n <= kMost || (n >= kLeastOfWide && n <= kMostOfWide)) && k >= (kMinWeights + n - 1) / (n > 0 ? n : 1);
}

}  // namespace gpukit::cuda::h200
