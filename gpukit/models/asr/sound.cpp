#include "gpukit/models/asr/sound.h"

#include <algorithm>
#include <cmath>

namespace gpukit::asr {
namespace {

constexpr int64_t kHop = kSampleRate / 100;  // one level each 10 ms
constexpr int64_t kMargin = kSampleRate / 5;
constexpr double kSilence = 1e-7;  // -70 dB of full scale

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

/// Ten times the power of the quiet parts, between -60 and -30 dB below the loud ones.
double threshold_of(const std::vector<double>& levels) {
  const double loud = quantile(levels, 0.95);
  return std::max(kSilence, std::clamp(10 * quantile(levels, 0.1), 1e-6 * loud, 1e-3 * loud));
}

std::span<const float> part_of(std::span<const float> samples, SoundRange range) {
  return samples.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin));
}

}  // namespace

double loudness(std::span<const float> samples) { return samples.empty() ? 0 : quantile(powers(samples), 0.95); }

bool is_quiet(std::span<const float> samples, double power) {
  const std::vector<double> levels = powers(samples);
  return std::all_of(levels.begin(), levels.end(), [&](double l) { return l <= std::max(power, kSilence); });
}

int64_t skip_quiet(std::span<const float> samples, SoundRange range) {
  for (int64_t at = range.begin; at < range.end; at += kHop)
    if (!is_quiet(part_of(samples, {at, std::min(at + kHop, range.end)}))) return std::max(range.begin, at - kMargin);
  return range.end;
}

std::vector<SoundRange> find_pauses(std::span<const float> samples, SoundRange range) {
  std::vector<SoundRange> pauses;
  if (range.end <= range.begin) return pauses;
  const std::vector<double> levels = powers(part_of(samples, range));
  const double threshold = threshold_of(levels);
  const auto count = static_cast<int64_t>(levels.size());
  for (int64_t i = 0, begin = 0; i <= count; ++i) {
    if (i < count && !(levels[static_cast<size_t>(i)] > threshold)) continue;
    if ((i - begin) * kHop >= kMargin)
      pauses.push_back({range.begin + begin * kHop, std::min(range.begin + i * kHop, range.end)});
    begin = i + 1;
  }
  return pauses;
}

std::vector<SoundRange> find_speech(std::span<const float> samples) {
  std::vector<SoundRange> parts;
  if (samples.empty()) return parts;
  const std::vector<double> levels = powers(samples);
  const double threshold = threshold_of(levels);
  const auto size = static_cast<int64_t>(samples.size());
  constexpr int64_t kGap = kSampleRate;
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
    const std::vector<double> levels = powers(part_of(samples, {first, first + kWindowSamples / 3}));
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
