#include "gpukit/base/bench.h"

#include <numeric>

namespace gpukit {

Timing summarize(std::vector<double> samples_us, int64_t calls) {
  Timing t;
  t.rounds = static_cast<int>(samples_us.size());
  t.calls = calls;
  if (samples_us.empty()) return t;
  std::sort(samples_us.begin(), samples_us.end());
  const size_t n = samples_us.size();
  t.median_us = n % 2 == 1 ? samples_us[n / 2] : 0.5 * (samples_us[n / 2 - 1] + samples_us[n / 2]);
  t.min_us = samples_us.front();
  t.max_us = samples_us.back();
  t.mean_us = std::accumulate(samples_us.begin(), samples_us.end(), 0.0) / static_cast<double>(n);
  t.p10_us = samples_us[(n - 1) / 10];
  t.p90_us = samples_us[(n - 1) - (n - 1) / 10];
  return t;
}

}  // namespace gpukit
