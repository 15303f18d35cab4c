#include "gpukit/ops/audio/tonal.h"

#include <cmath>
#include <string>

#include "gpukit/ops/audio/lanes.h"
#include "gpukit/ops/audio/signal_rows.h"
#include "gpukit/ops/audio/spectrum.h"
#include "gpukit/ops/audio/tonal.cuh"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/matmul.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/tonal.cuh",
                             gather_names({"CqtWave", "ChromaWeights", "FoldOctaves", "OverLargest", "ChromaNorm"}));
enum Kernel { kWave, kWeights, kFold, kLargest, kNorm };
const jit::KernelSet sums("gpukit/ops/audio/tonal.cuh", lane_names({"ConstantQ"}));

constexpr int64_t kMaxClasses = 1 << 10;

CqtParams cqt_params(const char* op, const Array& audio, const CqtOptions& o) {
  check_signal(op, "audio", audio);
  check_positive(op, "sample_rate", o.sample_rate);
  check_positive(op, "f_min", o.f_min);
  check_at_least(op, "hop_length", o.hop_length, 1);
  check_at_least(op, "n_bins", o.n_bins, 1);
  check_at_least(op, "bins_per_octave", o.bins_per_octave, 1);
  CqtParams p{};
  p.n = audio.shape(-1);
  p.frames = 1 + p.n / o.hop_length;
  p.hop = o.hop_length;
  p.bins = o.n_bins;
  p.octaves = 1.0 / static_cast<double>(o.bins_per_octave);
  if (o.f_min * cqt_ratio(o.n_bins - 1, p) >= o.sample_rate / 2)
    throw ArgumentError(op, "n_bins", "keep the highest bin below half of the sample rate", std::to_string(o.n_bins));
  const double square = std::exp2(2 * p.octaves);
  p.periods = (square + 1) / (square - 1) * o.sample_rate / o.f_min;
  constexpr double kMaxWindow = 1 << 28;
  if (p.periods > kMaxWindow)
    throw ArgumentError(op, "f_min", "need windows of less than 2^28 samples", std::to_string(o.f_min));
  p.widest = cqt_width(0, p);
  p.turns = o.f_min / o.sample_rate;
  return p;
}

void transform(const char* op, const Array& audio, const CqtParams& p, const Array& to) {
  Temporaries temporaries(op);
  const Array waves = temporaries.empty({p.bins, p.widest}, DType::complex64, audio.device());
  gather<CqtWave>(op, kernels.get(kWave), waves, {}, {}, {}, p, 64);
  const double windows = static_cast<double>(p.widest) / (1 - std::exp2(-p.octaves));
  lane_values<ConstantQ>(op, sums.get(0), to, as_rows(audio, temporaries), waves, {}, p,
                         4 * static_cast<int64_t>(windows) / p.bins);
}

Array over_largest(const char* op, const Output& output, const Array& values, int64_t classes) {
  gather<OverLargest>(op, kernels.get(kLargest), output.to(), values, {}, {}, {classes}, 4 * classes);
  return output.finish();
}

}  // namespace

Array cqt(const Array& audio, const CqtOptions& options, const Array* out) {
  constexpr const char* kOp = "cqt";
  const CqtParams p = cqt_params(kOp, audio, options);
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, audio, 1, {p.frames, p.bins}), DType::complex64, audio.device(),
                      {&audio}, temporaries);
  if (!output.empty()) transform(kOp, audio, p, output.to());
  return output.finish();
}

Array cqt_magnitude(const Array& audio, const CqtOptions& options, const Array* out) {
  constexpr const char* kOp = "cqt_magnitude";
  const CqtParams p = cqt_params(kOp, audio, options);
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, audio, 1, {p.frames, p.bins}), DType::float32, audio.device(), {&audio},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array values = temporaries.empty(output.to().shape(), DType::complex64, audio.device());
  transform(kOp, audio, p, values);
  magnitude(values, &output.to());
  return output.finish();
}

Array chroma_stft(const Array& spectrum, double sample_rate, int64_t n_chroma, double tuning, const Array* out) {
  constexpr const char* kOp = "chroma_stft";
  check_spectrum(kOp, "spectrum", spectrum, 1, 2);
  check_positive(kOp, "sample_rate", sample_rate);
  if (n_chroma < 1 || n_chroma > kMaxClasses)
    throw ArgumentError(kOp, "n_chroma", "be between 1 and 1024", std::to_string(n_chroma));
  if (!std::isfinite(tuning)) throw ArgumentError(kOp, "tuning", "be finite", std::to_string(tuning));
  const int64_t bins = spectrum.shape(-1);
  const Device device = spectrum.device();
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, spectrum, 1, {n_chroma}), DType::float32, device, {&spectrum},
                      temporaries);
  if (output.empty()) return output.finish();
  constexpr double kLowestA = 27.5;
  const double bin_hz = sample_rate / (2.0 * static_cast<double>(bins - 1));
  const ChromaParams p{bins, n_chroma, std::log2(bin_hz / kLowestA), tuning};
  const Array norms = temporaries.empty({bins}, DType::float64, device);
  gather<ChromaNorm>(kOp, kernels.get(kNorm), norms, {}, {}, {}, p, 64 * n_chroma);
  const Array weights = temporaries.empty({n_chroma, bins}, DType::float32, device);
  gather<ChromaWeights>(kOp, kernels.get(kWeights), weights, norms, {}, {}, p, 128);
  const Array rows = as_rows(spectrum, temporaries);
  const Array values = temporaries.empty({rows.shape(0), n_chroma}, DType::float32, device);
  matmul(rows, weights.transpose(), &values, {.precision = MatmulPrecision::exact});
  return over_largest(kOp, output, values, n_chroma);
}

Array chroma_cqt(const Array& cqt_mag, int64_t bins_per_octave, int64_t n_chroma, const Array* out) {
  constexpr const char* kOp = "chroma_cqt";
  check_spectrum(kOp, "cqt_mag", cqt_mag);
  check_at_least(kOp, "bins_per_octave", bins_per_octave, 1);
  if (n_chroma < 1 || n_chroma > kMaxClasses)
    throw ArgumentError(kOp, "n_chroma", "be between 1 and 1024", std::to_string(n_chroma));
  if (bins_per_octave % n_chroma != 0)
    throw ArgumentError(kOp, "bins_per_octave", "be a multiple of n_chroma, " + std::to_string(n_chroma),
                        std::to_string(bins_per_octave));
  const FoldParams p{cqt_mag.shape(-1), n_chroma, bins_per_octave, bins_per_octave / n_chroma};
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, cqt_mag, 1, {n_chroma}), DType::float32, cqt_mag.device(), {&cqt_mag},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array values = temporaries.empty_like(output.to());
  gather<FoldOctaves>(kOp, kernels.get(kFold), values, as_rows(cqt_mag, temporaries), {}, {}, p, 4 * p.bins);
  return over_largest(kOp, output, values, n_chroma);
}

}  // namespace gpukit::audio
