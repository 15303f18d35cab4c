#include "gpukit/ops/audio/vocoder.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/vocoder.cuh"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/vocoder.cuh",
                             gather_names({"HarmonicTurns", "HarmonicSource", "MagnitudePhase", "SpectrumFromLogs",
                                           "SamplesFromLogs"}));
enum Kernel { kTurns, kSource, kParts, kSpectrum, kSamples };

static_assert(sizeof(HarmonicParams::mix) == sizeof(float) * kMaxHarmonics);

/// Where the result is computed: `target` where it is contiguous and apart from `input`, else a temporary.
Array writable(const Array& target, const Array& input, Temporaries& temporaries) {
  const bool direct = target.is_contiguous() && !may_share_memory(target, input);
  return direct ? target : temporaries.empty_like(target);
}

void give(const Array& target, const Array& computed) {
  if (target.storage() != computed.storage() || target.offset_bytes() != computed.offset_bytes())
    copy_into(target, computed);
}

}  // namespace

Array harmonic_source(const Array& f0, const HarmonicOptions& o, const Array* noise,
                      const std::optional<random::State>& state, const Array* out) {
  constexpr const char* kOp = "harmonic_source";
  constexpr int64_t kCost = 400;
  check_dtype(kOp, "f0", f0, DType::float32);
  check_ndim(kOp, "f0", f0, 1);
  const auto harmonics = static_cast<int64_t>(o.mix.size());
  if (harmonics < 1 || harmonics > kMaxHarmonics)
    throw ArgumentError(kOp, "mix", "have 1 to 16 weights", std::to_string(harmonics));
  if (o.step < 1) throw ArgumentError(kOp, "step", "be positive", std::to_string(o.step));
  if (!(o.rate > 0)) throw ArgumentError(kOp, "rate", "be positive", std::to_string(o.rate));
  const int64_t n = f0.shape(0), samples = checked_product(kOp, n, o.step);
  if (noise != nullptr) {
    check_same_device(kOp, f0, *noise);
    check_dtype(kOp, "noise", *noise, DType::float32);
    check_shape(kOp, "noise", *noise, {samples, harmonics});
  }
  const Array target = result(kOp, out, {samples}, DType::float32, f0.device());
  if (target.size() == 0) return target;
  HarmonicParams p{};
  p.n = n;
  p.step = o.step;
  p.harmonics = static_cast<int32_t>(harmonics);
  p.bias = o.bias;
  p.amplitude = static_cast<float>(o.amplitude);
  p.voiced_noise = static_cast<float>(o.voiced_noise);
  p.voiced_above = static_cast<float>(o.voiced_above);
  p.rate = o.rate;
  p.seeded = state.has_value();
  if (state) p.seed = state->seed, p.offset = state->offset;
  std::copy(o.mix.begin(), o.mix.end(), p.mix);
  Temporaries temporaries(kOp);
  const Array pitch = contiguous(f0, temporaries);
  const Array random = noise != nullptr ? contiguous(*noise, temporaries) : Array();
  const Array turns = temporaries.empty({harmonics, n}, DType::float64, f0.device());
  gather<HarmonicTurns>(kOp, kernels.get(kTurns), turns, pitch, {}, {}, p);
  const Array sums = temporaries.empty_like(turns);
  cumsum(turns, 1, {}, &sums);
  const bool apart = target.is_contiguous() && !may_share_memory(target, pitch) &&
                     !(noise != nullptr && may_share_memory(target, random));
  const Array to = apart ? target : temporaries.empty_like(target);
  gather<HarmonicSource>(kOp, kernels.get(kSource), to, sums, pitch, random, p, kCost);
  give(target, to);
  return target;
}

Array magnitude_phase(const Array& spectrum, const Array* out) {
  constexpr const char* kOp = "magnitude_phase";
  check_dtype(kOp, "spectrum", spectrum, DType::complex64);
  check_ndim(kOp, "spectrum", spectrum, 2);
  const PolarParams p{spectrum.shape(0), spectrum.shape(1)};
  const Array target = result(kOp, out, {2 * p.bins, p.frames}, DType::float32, spectrum.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const Array pairs = contiguous(spectrum, temporaries);
  const Array to = writable(target, pairs, temporaries);
  gather<MagnitudePhase>(kOp, kernels.get(kParts), to, pairs, {}, {}, p, 64);
  give(target, to);
  return target;
}

Array spectrum_from_logs(const Array& x, const Array* out) {
  constexpr const char* kOp = "spectrum_from_logs";
  check_dtype(kOp, "x", x, DType::float32);
  check_ndim(kOp, "x", x, 2);
  if (x.shape(0) % 2 != 0) throw ShapeError(kOp, "x", "have two rows for each bin", x.shape().str());
  const PolarParams p{x.shape(1), x.shape(0) / 2};
  const Array target = result(kOp, out, {p.frames, p.bins}, DType::complex64, x.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const Array rows = contiguous(x, temporaries);
  const Array to = writable(target, rows, temporaries);
  const Array pairs = to.bitcast(DType::float32);
  gather<SpectrumFromLogs>(kOp, kernels.get(kSpectrum), pairs, rows, {}, {}, p, 128);
  give(target, to);
  return target;
}

namespace {

/// Samples [begin, end): each frame is transformed once.
void samples_of(float* to, const float* x, int64_t begin, int64_t end, const LogPolarParams& p) {
  const int64_t from = begin + p.points / 2, until = end + p.points / 2;  // places in the padded signal
  const int64_t first = from < p.points ? 0 : (from - p.points) / p.hop + 1;
  const auto points = static_cast<size_t>(p.points), count = static_cast<size_t>(end - begin);
  std::vector<float> window(points), cosines(points), sines(points), sums(count), weights(count);
  for (int64_t n = 0; n < p.points; ++n) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(p.points);
    window[static_cast<size_t>(n)] = hann(n, p.points);
    cosines[static_cast<size_t>(n)] = static_cast<float>(std::cos(turn));
    sines[static_cast<size_t>(n)] = static_cast<float>(std::sin(turn));
  }
  std::vector<float> re(static_cast<size_t>(p.bins)), im(static_cast<size_t>(p.bins));
  for (int64_t frame = first; frame < p.frames && frame * p.hop < until; ++frame) {
    for (int64_t k = 0; k < p.bins; ++k) {
      const bool real = k == 0 || k == p.bins - 1;
      const float size = std::exp(x[k * p.frames + frame]) * (real ? 1.0f : 2.0f) / static_cast<float>(p.points);
      const float angle = std::sin(x[(p.bins + k) * p.frames + frame]);
      re[static_cast<size_t>(k)] = size * std::cos(angle);
      im[static_cast<size_t>(k)] = real ? 0.0f : size * std::sin(angle);
    }
    for (int64_t n = 0; n < p.points; ++n) {
      const int64_t at = frame * p.hop + n - from;
      if (at < 0 || at >= end - begin) continue;
      float sum = 0;
      for (int64_t k = 0; k < p.bins; ++k) {
        const auto turn = static_cast<size_t>(k * n % p.points);
        sum += re[static_cast<size_t>(k)] * cosines[turn] - im[static_cast<size_t>(k)] * sines[turn];
      }
      const float w = window[static_cast<size_t>(n)];
      sums[static_cast<size_t>(at)] += w * sum;
      weights[static_cast<size_t>(at)] += w * w;
    }
  }
  for (int64_t i = 0; i < end - begin; ++i) {
    const float weight = weights[static_cast<size_t>(i)];
    to[begin + i] = weight > 1e-11f ? sums[static_cast<size_t>(i)] / weight : 0.0f;
  }
}

}  // namespace

Array samples_from_logs(const Array& x, int64_t hop, int64_t length, const Array* out) {
  constexpr const char* kOp = "samples_from_logs";
  check_dtype(kOp, "x", x, DType::float32);
  check_ndim(kOp, "x", x, 2);
  if (x.shape(0) % 2 != 0 || x.shape(0) < 4)
    throw ShapeError(kOp, "x", "have two rows for each of at least two bins", x.shape().str());
  if (hop < 1) throw ArgumentError(kOp, "hop_length", "be positive", std::to_string(hop));
  if (length < 0) throw ArgumentError(kOp, "length", "not be negative", std::to_string(length));
  const int64_t bins = x.shape(0) / 2;
  const LogPolarParams p{x.shape(1), bins, hop, 2 * (bins - 1)};
  const Array target = result(kOp, out, {length}, DType::float32, x.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const Array rows = contiguous(x, temporaries);
  const Array to = writable(target, rows, temporaries);
  if (x.device().kind == DeviceKind::cuda) {
    gather<SamplesFromLogs>(kOp, kernels.get(kSamples), to, rows, {}, {}, p);
  } else {
    runtime::run_host(kOp, to.device(), {write(to), read(rows)}, [p, length](void* const* address) {
      auto* samples = static_cast<float*>(address[0]);
      const auto* from = static_cast<const float*>(address[1]);
      constexpr int64_t kSamplesAtOnce = 4096;
      parallel_for(ceil_div(length, kSamplesAtOnce), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          samples_of(samples, from, i * kSamplesAtOnce, std::min(length, (i + 1) * kSamplesAtOnce), p);
      });
    });
  }
  give(target, to);
  return target;
}

}  // namespace gpukit::audio
