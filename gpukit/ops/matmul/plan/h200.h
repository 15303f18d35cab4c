// What the parts of a product on tensor cores cost, as measured on an H200 over shapes, tiles and clusters drawn at
// random (bench/notes/dense-tiles.md). Plans compare instances by these; no bit of a result depends on them.
#pragma once

#include <cmath>
#include <cstdint>

namespace gpukit::cuda::h200 {

inline constexpr double kTensorNs = 0.0196;                 // of a slice, for each element of a tile
inline constexpr double kSliceNs = 150;                     // of a slice, however small: barriers and the way from the L2
inline constexpr double kBytesPerNsOfOne = 133;             // into one multiprocessor
inline constexpr double kDramBytesPerNs = 3505;             // both operands, once
inline constexpr double kTileNs = 207, kElementNs = 0.0944;  // after a tile, and for each of its elements
inline constexpr double kSwapped = 0.985;                   // tiles that are stored transposed, beside others

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

}  // namespace gpukit::cuda::h200
