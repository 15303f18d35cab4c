#include "gpukit/engine/voice/speech_onset.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"

namespace gpukit::voice {

namespace {

constexpr int64_t kFramesPerSecond = 100;

}  // namespace

SpeechOnset::SpeechOnset(double energy_threshold, double seconds, int64_t sample_rate)
    : threshold_(energy_threshold), frame_(std::max<int64_t>(1, sample_rate / kFramesPerSecond)) {
  if (!(seconds >= 0.01 && seconds <= 1))
    throw ArgumentError("VoicePipeline", "barge_in_seconds", "be 0.01 to 1", number_text(seconds));
  needed_ = std::max<int64_t>(1, std::llround(seconds * kFramesPerSecond));
}

void SpeechOnset::reset() {
  rest_.clear();
  loud_ = 0;
}

bool SpeechOnset::process(std::span<const float> samples) {
  for (const float s : samples) rest_.push_back(std::isfinite(s) ? s : 0.0f);
  const auto frame = static_cast<size_t>(frame_);
  bool found = false;
  size_t at = 0;
  for (; rest_.size() - at >= frame; at += frame) {
    double squares = 0;
    for (size_t i = at; i < at + frame; ++i) squares += static_cast<double>(rest_[i]) * rest_[i];
    loud_ = std::sqrt(squares / static_cast<double>(frame_)) > threshold_ ? loud_ + 1 : 0;
    found = found || loud_ >= needed_;
  }
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<int64_t>(at));
  return found;
}

}  // namespace gpukit::voice
