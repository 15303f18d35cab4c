#include "gpukit/ops/audio/filters.h"

#include <cmath>
#include <numbers>

#include "gpukit/base/number_text.h"
#include "gpukit/ops/audio/filters.cuh"
#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/one_pole.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::audio {
namespace {

const jit::KernelSet elements("gpukit/ops/audio/filters.cuh",
                              gather_names({"NoiseGate", "GateFactor", "GateSample", "ScaleTo"}));
enum Element { kNoiseGate, kGateFactor, kGateSample, kScaleTo };
const jit::KernelSet levels("gpukit/ops/audio/filters.cuh", {"gpukit::level_of_frames"});

void check_signal(const char* op, const Array& x) {
  check_dtype(op, "audio", x, DType::float32);
  if (x.ndim() != 1 && x.ndim() != 2) throw ShapeError(op, "audio", "have shape [n] or [batch, n]", x.shape().str());
}

void check_number(const char* op, const char* argument, double value, double least, double below) {
  if (!(value >= least && value < below))
    throw ArgumentError(op, argument, "be from " + number_text(least) + " to below " + number_text(below),
                        number_text(value));
}

void check_finite(const char* op, const char* argument, double value) {
  if (!std::isfinite(value)) throw ArgumentError(op, argument, "be finite", number_text(value));
}

void check_positive(const char* op, const char* argument, int64_t value) {
  if (value < 1) throw ArgumentError(op, argument, "be at least 1", std::to_string(value));
}

int64_t rows_of(const Array& x) { return x.ndim() == 2 ? x.shape(0) : 1; }

/// Calls compute(to, from) with row-major arrays; both may be the same memory.
template <typename F>
Array filtered(const char* op, const Array& audio, const Array* out, F&& compute) {
  check_signal(op, audio);
  const Array target = result(op, out, audio.shape(), DType::float32, audio.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(op);
  const Array from = contiguous(audio, temporaries);
  const bool same = target.storage() == from.storage() && target.offset_bytes() == from.offset_bytes();
  const bool direct = target.is_contiguous() && (same || !may_share_memory(target, from));
  const Array to = direct ? target : temporaries.empty_like(target);
  compute(to, from, temporaries);
  if (!direct) copy_into(target, to);
  return target;
}

Array one_pole_of(const char* op, const Array& audio, double a, double b0, double b1, const Array* out) {
  return filtered(op, audio, out, [&](const Array& to, const Array& from, Temporaries& temporaries) {
    one_pole(op, to, from, a, b0, b1, temporaries);
  });
}

void level_rows(const char* op, const Array& out, const Array& crossings, const Array& x, FrameLevelParams p) {
  const Array& shaped = out.defined() ? out : crossings;
  if (shaped.size() == 0) return;
  if (shaped.device().kind == DeviceKind::cuda) {
    const int64_t blocks = ceil_div(p.rows * p.frames, int64_t{8});
    const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 20)), .block_x = 256};
    jit::launch(levels.get(0), shaped.device(), config, write_if(out), write_if(crossings), read(x), p);
    return;
  }
  runtime::run_host(op, shaped.device(), {write_if(out), write_if(crossings), read(x)}, [p](void* const* address) {
    auto* level = static_cast<float*>(address[0]);
    auto* crossing = static_cast<float*>(address[1]);
    const auto* samples = static_cast<const float*>(address[2]);
    const int64_t grain = std::max<int64_t>(1, 32768 / p.size);
    parallel_for(p.rows * p.frames, grain, [&](int64_t first, int64_t last) {
      for (int64_t at = first; at < last; ++at) {
        const int64_t begin = at % p.frames * p.hop, count = std::min(p.size, p.n - begin);
        const float* frame = samples + at / p.frames * p.n + begin;
        double sum = 0;
        int64_t changes = 0;
        for (int64_t i = 0; i < count; ++i) {
          sum += static_cast<double>(frame[i]) * static_cast<double>(frame[i]);
          if (i > 0) changes += (frame[i] >= 0.0f) != (frame[i - 1] >= 0.0f) ? 1 : 0;
        }
        const double mean = sum / static_cast<double>(count);
        if (level != nullptr) level[at] = static_cast<float>(p.root ? std::sqrt(mean) : mean);
        if (crossing != nullptr)
          crossing[at] = count > 1 ? static_cast<float>(changes) / static_cast<float>(count - 1) : 0.0f;
      }
    });
  });
}

Dims framed(const Array& x, int64_t frames) {
  Dims shape = x.shape();
  shape[shape.rank() - 1] = frames;
  return shape;
}

}  // namespace

Array preemphasis(const Array& audio, double alpha, const Array* out) {
  check_finite("preemphasis", "alpha", alpha);
  return one_pole_of("preemphasis", audio, 0.0, 1.0, -alpha, out);
}

Array deemphasis(const Array& audio, double alpha, const Array* out) {
  if (!(std::abs(alpha) < 1)) throw ArgumentError("deemphasis", "alpha", "lie between -1 and 1", number_text(alpha));
  return one_pole_of("deemphasis", audio, alpha, 1.0, 0.0, out);
}

Array highpass_filter(const Array& audio, double cutoff_hz, int64_t sample_rate, const Array* out) {
  constexpr const char* kOp = "highpass_filter";
  check_positive(kOp, "sample_rate", sample_rate);
  const double half = static_cast<double>(sample_rate) / 2;
  if (!(cutoff_hz > 0 && cutoff_hz < half))
    throw ArgumentError(kOp, "cutoff_hz", "lie between 0 and half the sample rate, " + std::to_string(half),
                        std::to_string(cutoff_hz));
  const double r = 1.0 / (2.0 * std::numbers::pi * cutoff_hz), a = r / (r + 1.0 / static_cast<double>(sample_rate));
  return one_pole_of(kOp, audio, a, a, -a, out);
}

Array remove_dc(const Array& audio, const Array* out) {
  return filtered("remove_dc", audio, out, [](const Array& to, const Array& from, Temporaries& temporaries) {
    Dims shape = from.shape();
    shape[shape.rank() - 1] = 1;
    const Array means = temporaries.empty(shape, DType::float32, from.device());
    mean(from, Dims{-1}, true, &means);
    subtract(from, means, &to);
  });
}

Array noise_gate(const Array& audio, double threshold, const Array* out) {
  check_number("noise_gate", "threshold", threshold, 0.0, INFINITY);
  return filtered("noise_gate", audio, out, [&](const Array& to, const Array& from, Temporaries&) {
    gather<NoiseGate>("noise_gate", elements.get(kNoiseGate), to, from, {}, {}, {static_cast<float>(threshold)});
  });
}

Array spectral_gate(const Array& audio, double threshold, int64_t attack_samples, int64_t release_samples,
                    const Array* out) {
  constexpr const char* kOp = "spectral_gate";
  check_number(kOp, "threshold", threshold, 0.0, INFINITY);
  check_positive(kOp, "attack_samples", attack_samples);
  if (release_samples < 0)
    throw ArgumentError(kOp, "release_samples", "not be negative", std::to_string(release_samples));
  return filtered(kOp, audio, out, [&](const Array& to, const Array& from, Temporaries& temporaries) {
    const int64_t n = from.shape(-1), size = std::min(attack_samples, n), frames = ceil_div(n, size);
    const Array energies = temporaries.empty(framed(from, frames), DType::float32, from.device());
    level_rows(kOp, energies, {}, from, {rows_of(from), n, frames, size, size, 0});
    const Array factors = temporaries.empty_like(energies);
    GateFactor::Params p{frames, 0, static_cast<float>(threshold), 1.0f};
    if (release_samples > size) {
      p.back = std::min(frames, release_samples / size);
      p.fall = static_cast<float>(static_cast<double>(size) / static_cast<double>(release_samples));
    }
    gather<GateFactor>(kOp, elements.get(kGateFactor), factors, energies, {}, {}, p, 8 * (p.back + 1));
    gather<GateSample>(kOp, elements.get(kGateSample), to, from, factors, {}, {n, frames, size});
  });
}

Array compute_short_term_energy(const Array& audio, int64_t frame_size, const Array* out) {
  constexpr const char* kOp = "compute_short_term_energy";
  check_signal(kOp, audio);
  check_positive(kOp, "frame_size", frame_size);
  const int64_t n = audio.shape(-1), frames = n / frame_size;
  const Array target = result(kOp, out, framed(audio, frames), DType::float32, audio.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const Array from = contiguous(audio, temporaries);
  const bool direct = target.is_contiguous() && !may_share_memory(target, from);
  const Array to = direct ? target : temporaries.empty_like(target);
  level_rows(kOp, to, {}, from, {rows_of(from), n, frames, frame_size, frame_size, 0});
  if (!direct) copy_into(target, to);
  return target;
}

FrameLevels frame_levels(const Array& audio, int64_t frame_size, int64_t hop_size) {
  constexpr const char* kOp = "frame_levels";
  check_signal(kOp, audio);
  check_positive(kOp, "frame_size", frame_size);
  check_positive(kOp, "hop_size", hop_size);
  const int64_t n = audio.shape(-1), frames = n < frame_size ? 0 : (n - frame_size) / hop_size + 1;
  const Dims shape = framed(audio, frames);
  const FrameLevels found{Array::empty(shape, DType::float32, audio.device()),
                          Array::empty(shape, DType::float32, audio.device())};
  Temporaries temporaries(kOp);
  const Array from = contiguous(audio, temporaries);
  level_rows(kOp, found.rms, found.crossings, from, {rows_of(from), n, frames, frame_size, hop_size, 1});
  return found;
}

Loudness loudness_from_name(const char* op, std::string_view name) {
  if (name == "peak") return Loudness::peak;
  if (name == "rms") return Loudness::rms;
  throw ArgumentError(op, "mode", "be peak or rms", name);
}

Array normalize(const Array& audio, Loudness mode, double target_db, const Array* out) {
  constexpr const char* kOp = "normalize";
  check_finite(kOp, "target_db", target_db);
  return filtered(kOp, audio, out, [&](const Array& to, const Array& from, Temporaries& temporaries) {
    const bool squared = mode == Loudness::rms;
    const Array sizes = temporaries.empty_like(from);
    const Array level = temporaries.empty({}, DType::float32, from.device());
    if (squared)
      mean(square(from, &sizes), {}, false, &level);
    else
      max(absolute(from, &sizes), {}, false, &level);
    const auto target = static_cast<float>(squared ? std::pow(10.0, target_db / 20.0) : 1.0);
    gather<ScaleTo>(kOp, elements.get(kScaleTo), to, from, level, {}, {target, squared ? 1 : 0});
  });
}

void check_buffer(const Array& data, int64_t sample_rate, int64_t channels) {
  constexpr const char* kOp = "AudioBuffer";
  check_dtype(kOp, "data", data, DType::float32);
  check_ndim(kOp, "data", data, 1);
  check_positive(kOp, "sample_rate", sample_rate);
  check_positive(kOp, "channels", channels);
  if (data.shape(0) % channels != 0)
    throw ShapeError(kOp, "data", "hold " + std::to_string(channels) + " samples at a time", data.shape().str());
}

Array to_full_scale(const Array& samples) {
  const DType dtype = samples.dtype();
  if (is_floating(dtype)) return astype(samples, DType::float32);
  if (!is_integer(dtype)) throw DTypeError("to_full_scale", "samples", "be integers or floats", name(dtype));
  const double full = std::ldexp(1.0, static_cast<int>(8 * itemsize(dtype)) - 1);
  const Array values = astype(samples, DType::float64);
  if (is_unsigned_integer(dtype)) subtract(values, full, &values);
  multiply(values, 1.0 / full, &values);
  return astype(values, DType::float32);
}

Array from_pcm(const Array& samples) {
  if (samples.dtype() == DType::float32) return samples;
  if (samples.dtype() != DType::int16)
    throw DTypeError("from_pcm", "samples", "be int16 or float32", name(samples.dtype()));
  const Array values = astype(samples, DType::float32);
  multiply(values, 1.0 / 32768.0, &values);
  return values;
}

Array to_mono(const Array& samples, int64_t channels) {
  constexpr const char* kOp = "to_mono";
  check_dtype(kOp, "samples", samples, DType::float32);
  check_ndim(kOp, "samples", samples, 1);
  if (channels == 1) return samples;
  if (channels != 2) throw ArgumentError(kOp, "channels", "be 1 or 2", std::to_string(channels));
  if (samples.shape(0) % 2 != 0) throw ShapeError(kOp, "samples", "hold pairs", samples.shape().str());
  return mean(contiguous(samples).reshape_view({samples.shape(0) / 2, 2}), Dims{1});
}

}  // namespace gpukit::audio
