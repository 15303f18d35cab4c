// A short timer: rounds of calls, and what the rounds say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpukit/base/files.h"

namespace gpukit {

struct Timing {
  double median_us = 0, min_us = 0, max_us = 0, mean_us = 0, p10_us = 0, p90_us = 0;  // per call
  int rounds = 0;
  int64_t calls = 0;  // per round
};

/// Sorts `samples_us`, the time of one call in each round.
Timing summarize(std::vector<double> samples_us, int64_t calls);

/// Times `rounds` rounds of `calls` calls of f() after one untimed round; `between()` runs untimed after every round.
template <typename F, typename Between>
Timing measure(F&& f, int rounds, int64_t calls, Between&& between) {
  std::vector<double> samples;
  samples.reserve(static_cast<size_t>(std::max(rounds, 0)));
  for (int round = -1; round < rounds; ++round) {
    const int64_t start = files::monotonic_ns();
    for (int64_t i = 0; i < calls; ++i) f();
    const int64_t stop = files::monotonic_ns();
    between();
    if (round >= 0) samples.push_back(static_cast<double>(stop - start) / 1e3 / static_cast<double>(calls));
  }
  return summarize(std::move(samples), calls);
}
template <typename F>
Timing measure(F&& f, int rounds = 20, int64_t calls = 1) {
  return measure(f, rounds, calls, [] {});
}

}  // namespace gpukit
