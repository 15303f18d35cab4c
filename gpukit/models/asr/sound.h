// Where a recording is quiet: parts to leave out, and places to cut it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpukit::asr {

inline constexpr int64_t kSampleRate = 16000;
inline constexpr int64_t kWindowSamples = 30 * kSampleRate;

/// Samples [begin, end).
struct SoundRange {
  int64_t begin = 0, end = 0;
};

/// What is louder than the quiet parts of the recording by 10 dB, with 0.2 s before and after it; parts less than a
/// second apart are one.
std::vector<SoundRange> find_speech(std::span<const float> samples);
/// Pieces of at most 30 s, each cut at the quietest fifth of a second of its last 10 s.
std::vector<SoundRange> cut_at_quiet(std::span<const float> samples, SoundRange range);

}  // namespace gpukit::asr
