// Elements of running medians and of soft masks.
#pragma once
#include "gpukit/ops/audio/gather.cuh"
#include "gpukit/ops/common/ordered.cuh"

namespace gpukit {

struct MedianParams {
  int64_t frames, bins, size;
  int32_t in_time;
};

/// The element of rank size / 2 of the `size` elements around each of `a` [..., frames, bins], along one axis, mirrored
/// at the edges. Found from the highest bits down, two at a time. NaN where one of them is.
struct RunningMedian {
  using Value = float;
  using Params = MedianParams;
  static GPUKIT_DEVICE int64_t mirrored(int64_t i, int64_t n) {
    i = (i < 0 ? -1 - i : i) % (2 * n);
    return i < n ? i : 2 * n - 1 - i;
  }
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t bin = index % p.bins, frame = index / p.bins % p.frames;
    const int64_t here = p.in_time ? frame : bin, n = p.in_time ? p.frames : p.bins, step = p.in_time ? p.bins : 1;
    const float* line = a + (index - here * step);
    const int64_t first = here - p.size / 2, last = first + p.size - 1;
    const bool inside = first >= 0 && last < n;
    uint32_t found = 0;
    int32_t rank = static_cast<int32_t>(p.size / 2);
    for (int shift = 30; shift >= 0; shift -= 2) {
      int32_t below[3] = {0, 0, 0};  // elements that share the bits found so far and whose next two are at most 0, 1, 2
      for (int64_t i = first; i <= last; ++i) {
        const float x = line[(inside ? i : mirrored(i, n)) * step];
        if (x != x) return x;
        const uint32_t bits = ordered_bits(x) ^ found;
        const uint32_t digit = bits >> shift;
        below[0] += digit == 0 ? 1 : 0;
        below[1] += digit <= 1 ? 1 : 0;
        below[2] += digit <= 2 ? 1 : 0;
      }
      const uint32_t digit = rank < below[0] ? 0 : rank < below[1] ? 1 : rank < below[2] ? 2 : 3;
      if (digit > 0) rank -= below[digit - 1];
      found |= digit << shift;
    }
    return from_ordered_bits(found);
  }
};

/// Magnitudes `a` times the mask of a part `b` against the other one `c`.
struct SoftMask {
  using Value = float;
  struct Params {
    float power, margin;
    int32_t hard;  // an infinite power
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float* b, const float* c, const Params& p) {
    const float part = b[i], other = c[i] * p.margin;
    if (p.hard) return part > other ? a[i] : a[i] * 0.0f;
    const float largest = part > other || part != part ? part : other;
    if (largest < 1.17549435e-38f) return p.margin == 1.0f ? 0.5f * a[i] : a[i] * 0.0f;
    const float x = powf(part / largest, p.power), y = powf(other / largest, p.power);
    return a[i] * (x / (x + y));
  }
};

}  // namespace gpukit
