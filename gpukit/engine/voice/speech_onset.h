// The first moments of speech: sooner than a detector that also tells where speech ends, for what must stop at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpukit::voice {

class SpeechOnset {
 public:
  /// Speech is `seconds` of frames of 10 ms whose root mean square is above `energy_threshold`. Throws ArgumentError.
  SpeechOnset(double energy_threshold, double seconds, int64_t sample_rate);
  /// True when the samples make a run of loud frames that long, and while it goes on. What does not fill a frame waits
  /// for more; samples that are not finite are 0.
  bool process(std::span<const float> samples);
  void reset();

 private:
  double threshold_;
  int64_t frame_, needed_;  // samples of a frame; loud frames in a row
  std::vector<float> rest_;
  int64_t loud_ = 0;
};

}  // namespace gpukit::voice
