// Where somebody speaks in a recording, by the energy of frames and how often they change sign.
#pragma once

#include <optional>
#include <vector>

#include "gpukit/ops/audio/filters.h"

namespace gpukit::audio {

/// Samples [start_sample, end_sample), and the same in seconds.
struct SpeechSegment {
  int64_t start_sample = 0, end_sample = 0;
  double start_time = 0, end_time = 0;
  friend bool operator==(const SpeechSegment&, const SpeechSegment&) = default;
};

struct VadOptions {
  int64_t sample_rate = 16000;
  double frame_ms = 20.0, hop_ms = 10.0;
  /// Of the root mean square; when not given, three times that of the quietest frame, 0.01 at least.
  std::optional<double> energy_threshold;
  double hangover_ms = 100.0;              // speech goes on for so long after its last frame
  double zcr_low = 0.02, zcr_high = 0.25;  // frames with fewer changes of sign are hum; the upper one is not used
};

class Vad {
 public:
  /// Throws ArgumentError.
  explicit Vad(const VadOptions& options);
  const VadOptions& options() const { return options_; }
  int64_t frame_size() const { return frame_size_; }
  int64_t hop_size() const { return hop_size_; }
  /// Of float32 [n]; on its device.
  FrameLevels features(const Array& audio) const;
  /// In order of time. Waits for the device.
  std::vector<SpeechSegment> detect(const Array& audio) const;

 private:
  VadOptions options_;
  int64_t frame_size_ = 0, hop_size_ = 0;
};

}  // namespace gpukit::audio
