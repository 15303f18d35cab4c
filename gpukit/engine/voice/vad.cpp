#include "gpukit/engine/voice/vad.h"

#include <algorithm>
#include <cmath>

#include "gpukit/base/error.h"

namespace gpukit::voice {

namespace {

void check(bool good, const char* argument, const char* needed, double given) {
  if (!good) throw ArgumentError("VADConfig", argument, needed, std::to_string(given));
}

}  // namespace

VoiceActivityDetector::VoiceActivityDetector(const VadConfig& c) : config_(c) {
  check(c.energy_threshold > 0 && std::isfinite(c.energy_threshold), "energy_threshold", "be positive",
        c.energy_threshold);
  check(c.silence_threshold >= 0 && c.silence_threshold <= c.energy_threshold, "silence_threshold",
        "be at least 0 and at most energy_threshold", c.silence_threshold);
  check(c.sample_rate >= 1000 && c.sample_rate <= 1000000, "sample_rate", "be 1000 to 1000000",
        static_cast<double>(c.sample_rate));
  check(c.frame_duration_ms >= 1 && c.frame_duration_ms <= 1000, "frame_duration_ms", "be 1 to 1000",
        c.frame_duration_ms);
  check(c.min_speech_duration >= 0 && c.min_speech_duration <= 60, "min_speech_duration", "be 0 to 60",
        c.min_speech_duration);
  check(c.min_silence_duration >= 0 && c.min_silence_duration <= 60, "min_silence_duration", "be 0 to 60",
        c.min_silence_duration);
  check(c.max_speech_duration > c.min_speech_duration && c.max_speech_duration <= 3600, "max_speech_duration",
        "be above min_speech_duration and at most 3600", c.max_speech_duration);
  frame_ = std::max<int64_t>(1, std::llround(c.frame_duration_ms * static_cast<double>(c.sample_rate) / 1000));
  constexpr int64_t kFramesBefore = 3;
  before_ = kFramesBefore * frame_ + std::llround(c.min_speech_duration * static_cast<double>(c.sample_rate));
}

void VoiceActivityDetector::reset() {
  state_ = VadState::silence;
  rest_.clear();
  kept_.clear();
  taken_ = loud_ = quiet_ = 0;
}

std::vector<VadEvent> VoiceActivityDetector::process(std::span<const float> samples) {
  std::vector<VadEvent> events;
  for (const float s : samples) rest_.push_back(std::isfinite(s) ? s : 0.0f);
  size_t at = 0;
  for (; rest_.size() - at >= static_cast<size_t>(frame_); at += static_cast<size_t>(frame_))
    take_frame(std::span<const float>(rest_).subspan(at, static_cast<size_t>(frame_)), events);
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<int64_t>(at));
  return events;
}

void VoiceActivityDetector::take_frame(std::span<const float> frame, std::vector<VadEvent>& events) {
  double squares = 0;
  for (const float s : frame) squares += static_cast<double>(s) * s;
  const double level = std::sqrt(squares / static_cast<double>(frame_));
  kept_.insert(kept_.end(), frame.begin(), frame.end());
  taken_ += frame_;
  loud_ = level > config_.energy_threshold ? loud_ + 1 : 0;
  quiet_ = level < config_.silence_threshold ? quiet_ + 1 : 0;

  if (state_ == VadState::silence) {
    if (loud_ > 0 && seconds(loud_ * frame_) >= config_.min_speech_duration) {
      state_ = VadState::speech;
      events.push_back({true, seconds(taken_ - loud_ * frame_), {}, 0});
    } else if (static_cast<int64_t>(kept_.size()) > before_) {
      kept_.erase(kept_.begin(), kept_.end() - before_);
    }
    return;
  }
  if (loud_ > 0)
    state_ = VadState::speech;
  else if (quiet_ > 0)
    state_ = VadState::trailing;
  const bool over = quiet_ > 0 && seconds(quiet_ * frame_) >= config_.min_silence_duration;
  if (over || seconds(static_cast<int64_t>(kept_.size())) >= config_.max_speech_duration) events.push_back(finish());
}

VadEvent VoiceActivityDetector::finish() {
  VadEvent event{false, seconds(taken_), std::move(kept_), 0};
  event.duration = seconds(static_cast<int64_t>(event.audio.size()));
  kept_.clear();
  state_ = VadState::silence;
  loud_ = quiet_ = 0;
  return event;
}

}  // namespace gpukit::voice
