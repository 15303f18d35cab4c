// Where somebody speaks in a stream of samples, by the energy of short frames.
//
// Results follow from the samples alone, not from how the stream was cut into calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpukit::voice {

struct VadConfig {
  double energy_threshold = 0.01;    // root mean square of a frame that begins or goes on with speech
  double silence_threshold = 0.005;  // below it a frame is silent
  double min_speech_duration = 0.1, min_silence_duration = 0.5, max_speech_duration = 30.0;  // seconds
  double frame_duration_ms = 30.0;
  int64_t sample_rate = 16000;
};

enum class VadState { silence, speech, trailing };

struct VadEvent {
  bool start = false;        // speech began, else ended
  double timestamp = 0;      // seconds from the beginning of the stream
  std::vector<float> audio;  // of an end: all of it, with some frames before
  double duration = 0;       // of an end, seconds of audio
};

class VoiceActivityDetector {
 public:
  /// Throws ArgumentError for thresholds and durations that make no sense.
  explicit VoiceActivityDetector(const VadConfig& config = {});

  /// The events of the whole frames that are there now; the rest waits for more. Samples that are not finite are 0.
  std::vector<VadEvent> process(std::span<const float> samples);
  void reset();
  VadState state() const { return state_; }
  bool is_speaking() const { return state_ != VadState::silence; }
  const VadConfig& config() const { return config_; }

 private:
  void take_frame(std::span<const float> frame, std::vector<VadEvent>& events);
  VadEvent finish();
  double seconds(int64_t samples) const {
    return static_cast<double>(samples) / static_cast<double>(config_.sample_rate);
  }

  VadConfig config_;
  int64_t frame_, before_;  // samples of a frame, and of what is kept before speech
  VadState state_ = VadState::silence;
  std::vector<float> rest_, kept_;  // less than a frame; the end of the stream or the speech so far
  int64_t taken_ = 0;               // samples in whole frames
  int64_t loud_ = 0, quiet_ = 0;    // frames in a row
};

}  // namespace gpukit::voice
