#include "gpukit/ops/audio/voice_activity.h"

#include <algorithm>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"

namespace gpukit::audio {
namespace {

constexpr const char* kOp = "VAD";

int64_t samples_of(const char* argument, double ms, int64_t sample_rate) {
  const double samples = ms * static_cast<double>(sample_rate) / 1000.0;
  if (!(samples >= 1 && samples < 1e9))
    throw ArgumentError(kOp, argument, "be a sample at least and less than 1e9", std::to_string(ms) + " ms");
  return static_cast<int64_t>(samples);
}

}  // namespace

Vad::Vad(const VadOptions& options) : options_(options) {
  if (options.sample_rate < 1)
    throw ArgumentError(kOp, "sample_rate", "be at least 1", std::to_string(options.sample_rate));
  frame_size_ = samples_of("frame_ms", options.frame_ms, options.sample_rate);
  hop_size_ = samples_of("hop_ms", options.hop_ms, options.sample_rate);
  if (!(options.hangover_ms >= 0 && options.hangover_ms < 1e9))
    throw ArgumentError(kOp, "hangover_ms", "not be negative", std::to_string(options.hangover_ms));
}

FrameLevels Vad::features(const Array& audio) const {
  check_ndim(kOp, "audio", audio, 1);
  return frame_levels(audio, frame_size_, hop_size_);
}

std::vector<SpeechSegment> Vad::detect(const Array& audio) const {
  const FrameLevels levels = features(audio);
  const auto frames = static_cast<size_t>(levels.rms.size());
  std::vector<float> energy(frames), crossings(frames);
  if (frames == 0) return {};
  to_host(energy.data(), levels.rms, "VAD.detect");
  to_host(crossings.data(), levels.crossings, "VAD.detect");
  double threshold = 0;
  if (options_.energy_threshold) {
    threshold = *options_.energy_threshold;
  } else {
    float least = INFINITY;
    for (const float e : energy) least = e < least ? e : least;
    threshold = std::max(3.0 * static_cast<double>(least), 0.01);
  }
  const auto hangover = static_cast<int64_t>(options_.hangover_ms / options_.hop_ms);
  const int64_t n = audio.shape(0);
  const auto rate = static_cast<double>(options_.sample_rate);
  std::vector<SpeechSegment> found;
  int64_t begin = -1, left = 0;  // frames for which speech goes on
  const auto end_at = [&](int64_t frame) {
    const int64_t from = begin * hop_size_, to = std::min(n, frame * hop_size_ + frame_size_);
    found.push_back({from, to, static_cast<double>(from) / rate, static_cast<double>(to) / rate});
    begin = -1;
  };
  for (int64_t i = 0; i < static_cast<int64_t>(frames); ++i) {
    const auto at = static_cast<size_t>(i);
    const bool speech =
        static_cast<double>(energy[at]) > threshold && static_cast<double>(crossings[at]) >= options_.zcr_low;
    if (speech) left = hangover + 1;
    if (left > 0 && begin < 0) begin = i;
    if (left == 0 && begin >= 0) end_at(i - 1);
    left = std::max<int64_t>(0, left - 1);
  }
  if (begin >= 0) end_at(static_cast<int64_t>(frames) - 1);
  return found;
}

}  // namespace gpukit::audio
