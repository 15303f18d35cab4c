#include "gpukit/models/tts/speech_audio.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/unary.h"
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

Extent extent_of_sound(const Array& x) {
  constexpr const char* kOp = "extent_of_sound";
  constexpr float kSilent = 0.01f;  // of the peak
  check_samples(kOp, x);
  std::vector<float> samples(static_cast<size_t>(x.shape(0)));
  to_host(samples.data(), x, kOp);
  float peak = 0;
  for (const float s : samples) peak = std::max(peak, std::abs(s));
  const auto loud = [&](float s) { return std::abs(s) > kSilent * peak; };
  const auto first = std::find_if(samples.begin(), samples.end(), loud);
  if (first == samples.end()) return {0, x.shape(0)};
  const auto last = std::find_if(samples.rbegin(), samples.rend(), loud);
  return {first - samples.begin(), last.base() - samples.begin()};
}

void limit_peak(const Array& x) {
  check_samples("limit_peak", x);
  if (x.size() == 0) return;
  divide(x, maximum(max(absolute(x)), 1.0), &x);
}

}  // namespace gpukit::tts
