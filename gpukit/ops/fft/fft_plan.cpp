#include "gpukit/ops/fft/fft_plan.h"

#include <algorithm>
#include <cmath>

namespace gpukit::fft {

namespace {

int64_t without(int64_t n, int64_t factor) {
  while (n > 1 && n % factor == 0) n /= factor;
  return n;
}

std::vector<int64_t> divisors_up_to(int64_t n, int64_t limit) {
  std::vector<int64_t> result{1};
  for (int64_t prime : {2, 3, 5, 7}) {
    std::vector<int64_t> grown;
    int64_t power = 1, rest = n;
    while (true) {
      for (int64_t d : result)
        if (d <= limit / power) grown.push_back(d * power);
      if (rest % prime != 0 || power > limit / prime) break;
      rest /= prime;
      power *= prime;
    }
    result = std::move(grown);
  }
  return result;
}

}  // namespace

bool is_smooth(int64_t n) {
  for (int64_t prime : {2, 3, 5, 7}) n = without(n, prime);
  return n == 1;
}

std::vector<int> radices(int64_t n) {
  std::vector<int> result;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  // 8 as often as the rest can be made of 4 without a single 2.
  int eights = twos / 3;
  while (eights > 0 && (twos - 3 * eights) % 2 != 0) --eights;
  for (int i = 0; i < eights; ++i) result.push_back(8);
  for (twos -= 3 * eights; twos >= 2; twos -= 2) result.push_back(4);
  if (twos == 1) result.push_back(2);
  for (int prime : {7, 5, 3})
    for (; n % prime == 0; n /= prime) result.push_back(prime);
  return result;
}

int64_t convolution_length(int64_t n) {
  const int64_t needed = 2 * n - 1;
  int64_t best = INT64_MAX;
  for (int64_t odd : {1, 3, 5, 9, 15}) {
    int64_t m = odd;
    while (m < needed) m *= 2;
    best = std::min(best, m);
  }
  return best;
}

/// Of the kernel's own, for the places of its rows.
constexpr int64_t kOwnBytes = 2048 + 1024;

int64_t row_bytes(int64_t n, int64_t point_bytes) {
  return 2 * (n + (n >> (point_bytes == 16 ? 3 : 4)) + 1) * point_bytes;
}

int64_t longest_row(int64_t shared_bytes, int64_t point_bytes) {
  int64_t n = point_bytes == 16 ? 4096 : 8192;
  while (n > 1024 && row_bytes(n, point_bytes) + kOwnBytes > shared_bytes) n /= 2;
  return n;
}

int64_t rows_of_block(int64_t n, int64_t point_bytes, bool columns, int64_t shared_bytes) {
  constexpr int64_t kSharedBytes = 88 << 10;  // two blocks a multiprocessor
  constexpr int64_t kPoints = 2048, kColumns = 16;
  const int64_t wanted = columns ? std::max(kColumns, kPoints / n) : kPoints / n;
  int64_t fitting = kSharedBytes / row_bytes(n, point_bytes);
  // Rows side by side are read in sectors of 32 bytes; for whole ones a block takes the multiprocessor.
  const int64_t sector = 32 / point_bytes;
  if (columns && fitting < 2 * sector) {
    fitting = (shared_bytes - kOwnBytes) / row_bytes(n, point_bytes);
    if (fitting > sector) fitting -= fitting % sector;
  }
  return std::max<int64_t>(1, std::min(wanted, fitting));
}

int64_t balanced_divisor(int64_t n, int64_t limit) {
  const double root = std::sqrt(static_cast<double>(n));
  int64_t best = 0;
  for (int64_t d : divisors_up_to(n, limit)) {
    if (n / d > limit) continue;
    if (best == 0 ||
        std::abs(std::log(static_cast<double>(d) / root)) < std::abs(std::log(static_cast<double>(best) / root)))
      best = d;
  }
  return best;
}

int64_t largest_divisor(int64_t n, int64_t limit) {
  const std::vector<int64_t> all = divisors_up_to(n, limit);
  return *std::max_element(all.begin(), all.end());
}

}  // namespace gpukit::fft
