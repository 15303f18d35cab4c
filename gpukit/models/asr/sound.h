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
/// Power of the loud parts: what 19 of 20 hundredths of a second stay below.
double loudness(std::span<const float> samples);
/// Whether every hundredth of a second stays below a power, or below -70 dB of full scale.
bool is_quiet(std::span<const float> samples, double power = 0);
/// Where the sound of a range begins: behind what is below -70 dB of full scale, but for 0.2 s. The end of a range that
/// is all quiet.
int64_t skip_quiet(std::span<const float> samples, SoundRange range);
/// Parts of a range of at least 0.2 s that are no louder than what find_speech leaves out.
std::vector<SoundRange> find_pauses(std::span<const float> samples, SoundRange range);
/// Pieces of at most 30 s, each cut at the quietest fifth of a second of its last 10 s.
std::vector<SoundRange> cut_at_quiet(std::span<const float> samples, SoundRange range);

}  // namespace gpukit::asr
