// Elements of mel filter banks, logarithms, cosine transforms and differences in time.
#pragma once
#include "gpukit/ops/audio/gather.cuh"

namespace gpukit {

// Slaney's scale: linear up to 1 kHz, logarithmic above.
inline constexpr double kSlaneyStep = 200.0 / 3.0, kSlaneyBreakHz = 1000.0, kSlaneyBreakMel = 15.0;
inline constexpr double kSlaneyLogStep = 0.06875177742094912;  // log(6.4) / 27

GPUKIT_DEVICE double mel_to_hz(double mel, bool slaney) {
  if (!slaney) return 700.0 * (::exp(mel * 8.873160281287268e-4) - 1.0);  // log(10) / 2595
  return mel < kSlaneyBreakMel ? mel * kSlaneyStep : kSlaneyBreakHz * ::exp((mel - kSlaneyBreakMel) * kSlaneyLogStep);
}

/// Weight [band, bin] of triangles between corners that are evenly spaced in mel.
struct MelWeights {
  using Value = float;
  struct Params {
    int64_t bands, bins;
    double bin_hz, low, high;  // low, high: in mel
    int32_t slaney, area, exact;
  };
  static GPUKIT_DEVICE double corner(int64_t i, const Params& p) {
    const double part = static_cast<double>(i) / static_cast<double>(p.bands + 1);
    return mel_to_hz(p.low + (p.high - p.low) * part, p.slaney != 0);
  }
  static GPUKIT_DEVICE float at(int64_t index, const float*, const float*, const float*, const Params& p) {
    const int64_t band = index / p.bins, bin = index % p.bins;
    const double left = corner(band, p), middle = corner(band + 1, p), right = corner(band + 2, p);
    const double area = p.area ? 2.0 / (right - left) : 1.0;
    const double f = static_cast<double>(bin) * p.bin_hz;
    const double up = (f - left) / (middle - left), down = (right - f) / (right - middle);
    const double weight = up < down ? up : down;
    if (weight > 0) return static_cast<float>(weight * area);
    if (p.exact) return 0.0f;
    // The nearest bin of a triangle that lies between two.
    const double first = ::floor(left / p.bin_hz) + 1.0;
    if (first * p.bin_hz < right && first < static_cast<double>(p.bins)) return 0.0f;
    const double nearest = ::floor(middle / p.bin_hz + 0.5), last = static_cast<double>(p.bins - 1);
    return static_cast<double>(bin) == (nearest < last ? nearest : last) ? static_cast<float>(area) : 0.0f;
  }
};

/// The bins of a band that may have a weight.
struct alignas(8) BinRange {
  int32_t begin, end;
};
struct MelRange {
  using Value = BinRange;
  using Params = MelWeights::Params;
  static GPUKIT_DEVICE BinRange at(int64_t band, const float*, const float*, const float*, const Params& p) {
    const double bins = static_cast<double>(p.bins);
    const double first = ::floor(MelWeights::corner(band, p) / p.bin_hz);
    const double last = ::floor(MelWeights::corner(band + 2, p) / p.bin_hz) + 1.0;
    return {static_cast<int32_t>(first < bins ? first : bins - 1.0),
            static_cast<int32_t>(last < bins ? last + 1.0 : bins)};
  }
};

/// Element [frame, band]: the power of complex `a` [frames, bins] by weights `b` [bands, bins] within the ranges `c`,
/// or the logarithm of that and eps.
struct MelPower {
  using Value = float;
  struct Params {
    int64_t bands, bins;
    float eps;
    int32_t log;
  };
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float* b, const float* c, const Params& p) {
    const int64_t band = index % p.bands;
    const float* z = a + 2 * (index / p.bands * p.bins);
    const float* weight = b + band * p.bins;
    const BinRange range = reinterpret_cast<const BinRange*>(c)[band];
    float sum = 0.0f;
    for (int32_t k = range.begin; k < range.end; ++k)
      sum = fmaf(z[2 * k] * z[2 * k] + z[2 * k + 1] * z[2 * k + 1], weight[k], sum);
    return p.log ? logf(sum + p.eps) : sum;
  }
};

/// scale * log(x + eps), the natural or the decimal one.
struct ScaledLog {
  using Value = float;
  struct Params {
    float scale, eps;
    int32_t decimal;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float*, const float*, const Params& p) {
    const float x = a[i] + p.eps;
    return p.scale * (p.decimal ? log10f(x) : logf(x));
  }
};

/// Element [i, k] of the orthonormal DCT-II of `size` values.
struct CosineTransform {
  using Value = float;
  struct Params {
    int64_t size, count;
  };
  static GPUKIT_DEVICE float at(int64_t index, const float*, const float*, const float*, const Params& p) {
    const int64_t i = index / p.count, k = index % p.count;
    const int64_t turn = k * (2 * i + 1) % (4 * p.size);
    const double size = static_cast<double>(p.size);
    const double cosine = ::cos(3.141592653589793 * static_cast<double>(turn) / (2.0 * size));
    return static_cast<float>(cosine * ::sqrt((k == 0 ? 1.0 : 2.0) / size));
  }
};

/// The slope over `width` frames on either side of a [..., frames, values]; the frames at the ends repeat.
struct FrameDelta {
  using Value = float;
  struct Params {
    int64_t frames, values, width;
  };
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t value = index % p.values, frame = index / p.values % p.frames;
    const float* column = a + index / p.values / p.frames * p.frames * p.values + value;
    float sum = 0.0f, weight = 0.0f;
    for (int64_t n = 1; n <= p.width; ++n) {
      const int64_t after = frame + n < p.frames ? frame + n : p.frames - 1, before = frame > n ? frame - n : 0;
      const float step = static_cast<float>(n);
      sum += step * (column[after * p.values] - column[before * p.values]);
      weight += 2.0f * step * step;
    }
    return sum / weight;
  }
};

}  // namespace gpukit
