#include "gpukit/models/tts/speech_audio.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/fft/fft.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::tts {

namespace {

void check_samples(const char* op, const Array& x) {
  check_dtype(op, "samples", x, DType::float32);
  check_ndim(op, "samples", x, 1);
}

}  // namespace

void fade_ends(const Array& x, int64_t samples) {
  check_samples("fade_ends", x);
  const int64_t n = std::min(samples, x.shape(0) / 2);
  if (n < 1) return;
  const double step = 1.0 / static_cast<double>(n + 1);
  const Array ramp = linspace(step, 1.0 - step, n, DType::float32, true, x.device());
  const Array head = x.narrow(0, 0, n), tail = x.narrow(0, x.shape(0) - n, n);
  multiply(head, ramp, &head);
  multiply(tail, flip(ramp), &tail);
}

Array join_audio(std::span<const Array> parts, int64_t gap) {
  constexpr const char* kOp = "concatenate_audio";
  if (parts.empty()) throw ArgumentError(kOp, "parts", "have at least one", "none");
  if (gap < 0) throw ArgumentError(kOp, "gap_samples", "not be negative", std::to_string(gap));
  std::vector<Array> all;
  for (const Array& part : parts) {
    check_samples(kOp, part);
    if (gap > 0 && !all.empty()) all.push_back(zeros({gap}, DType::float32, part.device()));
    all.push_back(part);
  }
  return concat(all);
}

void limit_peak(const Array& x) {
  check_samples("limit_peak", x);
  if (x.size() == 0) return;
  divide(x, maximum(max(absolute(x)), 1.0), &x);
}

Array resample(const Array& x, int64_t from, int64_t to) {
  constexpr const char* kOp = "resample_audio";
  check_samples(kOp, x);
  constexpr int64_t kHighest = 1 << 20;
  if (from < 1 || from > kHighest) throw ArgumentError(kOp, "orig_sr", "be 1 to 1048576", std::to_string(from));
  if (to < 1 || to > kHighest) throw ArgumentError(kOp, "target_sr", "be 1 to 1048576", std::to_string(to));
  if (from == to || x.size() == 0) return copy(x);
  // A whole number of periods of both rates, with a mirrored margin so that the ends do not meet.
  const int64_t common = std::gcd(from, to), down = from / common, up = to / common;
  const int64_t n = x.shape(0), wanted = ceil_div(checked_product(kOp, n, up), down);
  constexpr int64_t kMargin = 256;
  const int64_t before =
      ceil_div(std::min(kMargin, n - 1), down) * down <= n - 1 ? ceil_div(std::min(kMargin, n - 1), down) * down : 0;
  const int64_t total = ceil_div(n + 2 * before, down) * down;
  std::array<std::pair<int64_t, int64_t>, 1> sides{{{before, before}}};
  const Array mirrored = pad(x, sides, PadMode::reflect);
  const int64_t length = total / down * up;
  const Array spectrum = fft::rfft(mirrored, total);
  const int64_t bins = std::min(total, length) / 2 + 1;
  const Array whole = fft::irfft(spectrum.narrow(0, 0, bins), length);
  return multiply(whole.narrow(0, before / down * up, wanted), static_cast<double>(up) / static_cast<double>(down));
}

}  // namespace gpukit::tts
