#include "gpukit/ops/audio/spectral.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gpukit/base/number_text.h"
#include "gpukit/ops/audio/lanes.h"
#include "gpukit/ops/audio/signal_rows.h"
#include "gpukit/ops/audio/spectral.cuh"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/spectral.cuh",
                             lane_names({"SpectralCentroid", "SpectralBandwidth", "SpectralRolloff", "SpectralFlatness",
                                         "SpectralContrast", "ZeroCrossings"}));
enum Kernel { kCentroid, kBandwidth, kRolloff, kFlatness, kContrast, kCrossings };

BinParams bin_params(const char* op, const Array& spectrum, double sample_rate, double value) {
  check_positive(op, "sample_rate", sample_rate);
  const int64_t bins = spectrum.shape(-1);
  const double bin_hz = bins > 1 ? sample_rate / (2.0 * static_cast<double>(bins - 1)) : 0.0;
  return {bins, static_cast<float>(bin_hz), static_cast<float>(value)};
}

template <typename F>
Array of_frames(const char* op, Kernel kernel, const Array& spectrum, const Array& b, const BinParams& p,
                const Array* out, int64_t cost) {
  Temporaries temporaries(op);
  const Output output(op, out, with_last(op, spectrum, 1, {}), DType::float32, spectrum.device(), {&spectrum, &b},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array beside = b.defined() ? contiguous(b, temporaries) : b;
  lane_values<F>(op, kernels.get(kernel), output.to(), as_rows(spectrum, temporaries), beside, {}, p, cost * p.bins);
  return output.finish();
}

/// The bins of every band: from the one below its lowest frequency up to the one below its highest.
ContrastParams contrast_params(const char* op, const ContrastOptions& o, int64_t bins) {
  ContrastParams p{};
  p.bins = bins;
  p.bands = static_cast<int32_t>(o.n_bands + 1);
  const double bin_hz = o.sample_rate / (2.0 * static_cast<double>(bins - 1));
  double low = 0.0, high = o.f_min;
  for (int32_t band = 0; band < p.bands; ++band) {
    const bool last = band + 1 == p.bands;
    const auto first = static_cast<int64_t>(std::ceil(low / bin_hz)) - (band > 0 ? 1 : 0);
    const int64_t stop = last ? bins : std::min(bins, static_cast<int64_t>(std::floor(high / bin_hz)) + 1);
    p.begin[band] = static_cast<int32_t>(first);
    p.end[band] = static_cast<int32_t>(last ? stop : stop - 1);
    if (first < 0 || p.end[band] <= first)
      throw ArgumentError(op, "n_bands", "leave a bin of the spectrum for each band, from f_min up",
                          std::to_string(o.n_bands) + " for " + std::to_string(bins) + " bins");
    const double part = std::nearbyint(o.alpha * static_cast<double>(stop - first));
    p.count[band] = static_cast<int32_t>(std::clamp<double>(part, 1.0, p.end[band] - p.begin[band]));
    low = high;
    high *= 2;
  }
  return p;
}

}  // namespace

Array spectral_centroid(const Array& spectrum, double sample_rate, const Array* out) {
  constexpr const char* kOp = "spectral_centroid";
  check_spectrum(kOp, "spectrum", spectrum);
  return of_frames<SpectralCentroid>(kOp, kCentroid, spectrum, {}, bin_params(kOp, spectrum, sample_rate, 0), out, 4);
}

Array spectral_bandwidth(const Array& spectrum, const Array& centroids, double sample_rate, double p,
                         const Array* out) {
  constexpr const char* kOp = "spectral_bandwidth";
  check_spectrum(kOp, "spectrum", spectrum);
  check_positive(kOp, "p", p);
  check_dtype(kOp, "centroids", centroids, DType::float32);
  check_same_device(kOp, spectrum, centroids);
  check_shape(kOp, "centroids", centroids, with_last(kOp, spectrum, 1, {}));
  return of_frames<SpectralBandwidth>(kOp, kBandwidth, spectrum, centroids, bin_params(kOp, spectrum, sample_rate, p),
                                      out, 16);
}

Array spectral_rolloff(const Array& spectrum, double sample_rate, double roll_percent, const Array* out) {
  constexpr const char* kOp = "spectral_rolloff";
  check_spectrum(kOp, "spectrum", spectrum);
  if (!(roll_percent > 0 && roll_percent < 1))
    throw ArgumentError(kOp, "roll_percent", "be between 0 and 1", std::to_string(roll_percent));
  const BinParams p = bin_params(kOp, spectrum, sample_rate, roll_percent);
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, spectrum, 1, {}), DType::float32, spectrum.device(), {&spectrum},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array sums = temporaries.empty(spectrum.shape(), DType::float32, spectrum.device());
  cumsum(spectrum, spectrum.ndim() - 1, {}, &sums);
  lane_values<SpectralRolloff>(kOp, kernels.get(kRolloff), output.to(), sums, {}, {}, p, 4 * p.bins);
  return output.finish();
}

Array spectral_flatness(const Array& spectrum, const Array* out) {
  constexpr const char* kOp = "spectral_flatness";
  check_spectrum(kOp, "spectrum", spectrum);
  return of_frames<SpectralFlatness>(kOp, kFlatness, spectrum, {}, bin_params(kOp, spectrum, 1, 0), out, 32);
}

Array spectral_contrast(const Array& spectrum, const ContrastOptions& o, const Array* out) {
  constexpr const char* kOp = "spectral_contrast";
  check_spectrum(kOp, "spectrum", spectrum, 1, 2);
  check_positive(kOp, "sample_rate", o.sample_rate);
  check_positive(kOp, "f_min", o.f_min);
  if (o.n_bands < 1 || o.n_bands > kMaxContrastBands)
    throw ArgumentError(kOp, "n_bands", "be between 1 and " + std::to_string(kMaxContrastBands),
                        std::to_string(o.n_bands));
  if (!(o.alpha > 0 && o.alpha <= 1))
    throw ArgumentError(kOp, "alpha", "be above 0 and at most 1", number_text(o.alpha));
  if (o.f_min * std::exp2(static_cast<double>(o.n_bands - 1)) >= o.sample_rate / 2)
    throw ArgumentError(kOp, "n_bands", "keep f_min * 2^(n_bands - 1) below half of the sample rate",
                        std::to_string(o.n_bands));
  constexpr int64_t kMaxBins = 1 << 24;
  if (spectrum.shape(-1) > kMaxBins)
    throw ShapeError(kOp, "spectrum", "have at most 2^24 bins", spectrum.shape().str());
  const ContrastParams p = contrast_params(kOp, o, spectrum.shape(-1));
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, spectrum, 1, {p.bands}), DType::float32, spectrum.device(), {&spectrum},
                      temporaries);
  if (output.empty()) return output.finish();
  const int64_t wide = p.bins / p.bands + 1;
  lane_values<SpectralContrast>(kOp, kernels.get(kContrast), output.to(), as_rows(spectrum, temporaries), {}, {}, p,
                                wide * wide);
  return output.finish();
}

Array zero_crossing_rate(const Array& audio, int64_t frame_size, int64_t hop_size, const Array* out) {
  constexpr const char* kOp = "zero_crossing_rate";
  check_signal(kOp, "audio", audio);
  check_at_least(kOp, "frame_size", frame_size, 2);
  check_at_least(kOp, "hop_size", hop_size, 1);
  const int64_t n = audio.shape(-1), frames = n < frame_size ? 0 : 1 + (n - frame_size) / hop_size;
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, audio, 1, {frames}), DType::float32, audio.device(), {&audio},
                      temporaries);
  if (output.empty()) return output.finish();
  lane_values<ZeroCrossings>(kOp, kernels.get(kCrossings), output.to(), as_rows(audio, temporaries), {}, {},
                             {n, frames, frame_size, hop_size}, 4 * frame_size);
  return output.finish();
}

}  // namespace gpukit::audio
