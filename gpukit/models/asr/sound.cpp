#include "gpukit/models/asr/sound.h"

#include <algorithm>
#include <cmath>

namespace gpukit::asr {
namespace {

constexpr int64_t kHop = kSampleRate / 100;  // one level each 10 ms

/// Mean power of each hop.
std::vector<double> powers(std::span<const float> samples) {
  std::vector<double> levels;
  for (size_t at = 0; at < samples.size(); at += kHop) {
    const auto hop = samples.subspan(at, std::min<size_t>(kHop, samples.size() - at));
    double sum = 0;
    for (const float s : hop) sum += static_cast<double>(s) * s;
    levels.push_back(sum / static_cast<double>(hop.size()));
  }
  return levels;
}

double quantile(std::vector<double> values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

}  // namespace

std::vector<SoundRange> find_speech(std::span<const float> samples) {
  std::vector<SoundRange> parts;
  if (samples.empty()) return parts;
  const std::vector<double> levels = powers(samples);
  // Ten times the power of the quiet parts, between -60 and -30 dB below the loud ones; never below -70 dB of full.
  const double loud = quantile(levels, 0.95);
  const double threshold = std::max(1e-7, std::clamp(10 * quantile(levels, 0.1), 1e-6 * loud, 1e-3 * loud));
  const auto size = static_cast<int64_t>(samples.size());
  constexpr int64_t kMargin = kSampleRate / 5, kGap = kSampleRate;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (!(levels[i] > threshold)) continue;
    const int64_t begin = static_cast<int64_t>(i) * kHop, end = std::min(begin + kHop + kMargin, size);
    if (!parts.empty() && begin - kMargin - parts.back().end < kGap)
      parts.back().end = end;
    else
      parts.push_back({std::max<int64_t>(begin - kMargin, 0), end});
  }
  return parts;
}

std::vector<SoundRange> cut_at_quiet(std::span<const float> samples, SoundRange range) {
  std::vector<SoundRange> pieces;
  constexpr int64_t kQuiet = 20;  // hops
  while (range.end - range.begin > kWindowSamples) {
    const int64_t first = range.begin + kWindowSamples * 2 / 3;
    const std::vector<double> levels =
        powers(samples.subspan(static_cast<size_t>(first), static_cast<size_t>(kWindowSamples / 3)));
    int64_t best = 0;
    double least = HUGE_VAL;
    for (int64_t i = 0; i + kQuiet <= static_cast<int64_t>(levels.size()); ++i) {
      double sum = 0;
      for (int64_t j = i; j < i + kQuiet; ++j) sum += levels[static_cast<size_t>(j)];
      if (sum > least) continue;  // of equal ones the last
      least = sum;
      best = i;
    }
    const int64_t cut = first + (best + kQuiet / 2) * kHop;
    pieces.push_back({range.begin, cut});
    range.begin = cut;
  }
  if (range.end > range.begin) pieces.push_back(range);
  return pieces;
}

}  // namespace gpukit::asr
