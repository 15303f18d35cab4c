#include "gpukit/ops/audio/vocoder.h"

#include <algorithm>

#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/vocoder.cuh"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/vocoder.cuh",
                             gather_names({"HarmonicTurns", "HarmonicSource", "MagnitudePhase", "SpectrumFromLogs"}));
enum Kernel { kTurns, kSource, kParts, kSpectrum };

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

Array harmonic_source(const Array& f0, const HarmonicOptions& o, const Array* noise, const Array* out) {
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

}  // namespace gpukit::audio
