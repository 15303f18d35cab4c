#include "gpukit/ops/audio/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/matmul.h"

namespace gpukit::audio {
namespace {

constexpr const char* kOp = "resample";
constexpr int64_t kMaxRate = 10'000'000;
constexpr double kCrossings = 96;  // on each side
constexpr double kBeta = 10.06;    // of the Kaiser window: 100 dB
constexpr int64_t kMaxFilterBytes = int64_t{1} << 28;

/// `up` results of `down` samples each: result p of block b is at sample b * down + p * down / up.
struct Plan {
  int64_t up = 1, down = 1;
  double cutoff = 1;  // of the input's rate, in cycles per sample
  int64_t reach = 0;  // samples before and after that a result sees
  int64_t taps() const { return 2 * reach + down; }
};

Plan make_plan(int64_t from, int64_t to) {
  Plan plan;
  const int64_t common = std::gcd(from, to);
  plan.up = to / common;
  plan.down = from / common;
  const double lower = std::min(1.0, static_cast<double>(plan.up) / static_cast<double>(plan.down));
  plan.cutoff = 0.5 * lower * 0.965;  // the middle of the slope
  plan.reach = static_cast<int64_t>(std::ceil(kCrossings / lower));
  return plan;
}

/// [taps, up]: a column for each result of a block.
std::vector<float> make_filters(const Plan& plan) {
  const double half = static_cast<double>(plan.reach), top = std::cyl_bessel_i(0.0, kBeta);
  std::vector<float> filters(static_cast<size_t>(plan.taps() * plan.up), 0.0f);
  for (int64_t p = 0; p < plan.up; ++p) {
    const double place = static_cast<double>(p * plan.down) / static_cast<double>(plan.up);
    for (int64_t t = 0; t < plan.taps(); ++t) {
      const double x = static_cast<double>(t - plan.reach) - place;
      if (std::abs(x) >= half) continue;
      const double angle = 2 * std::numbers::pi * plan.cutoff * x;
      const double sinc = angle == 0 ? 1 : std::sin(angle) / angle;
      const double window = std::cyl_bessel_i(0.0, kBeta * std::sqrt(1 - x / half * (x / half))) / top;
      filters[static_cast<size_t>(t * plan.up + p)] = static_cast<float>(2 * plan.cutoff * sinc * window);
    }
  }
  return filters;
}

}  // namespace

Array resample(const Array& signal, int64_t from, int64_t to, const Array* out) {
  check_dtype(kOp, "signal", signal, DType::float32);
  if (signal.ndim() != 1 && signal.ndim() != 2)
    throw ShapeError(kOp, "signal", "have shape [n] or [batch, n]", signal.shape().str());
  for (const int64_t rate : {from, to})
    if (rate < 1 || rate > kMaxRate)
      throw ArgumentError(kOp, "rate", "be 1 to " + std::to_string(kMaxRate), std::to_string(rate));
  const Plan plan = make_plan(from, to);
  if (plan.taps() * plan.up > kMaxFilterBytes / 4)
    throw ArgumentError(kOp, "rates", "have a ratio of smaller numbers",
                        std::to_string(plan.up) + ":" + std::to_string(plan.down));

  const int64_t n = signal.shape(-1), length = checked_product(kOp, n, plan.up) / plan.down;
  Dims shape = signal.shape();
  shape[shape.rank() - 1] = length;
  const Array target = result(kOp, out, shape, DType::float32, signal.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const Device device = signal.device();
  const Array filters = temporaries.empty({plan.taps(), plan.up}, DType::float32, device);
  const std::vector<float> values = make_filters(plan);
  copy_into(filters, from_host(values.data(), filters.shape(), DType::float32, device));

  const int64_t blocks = (length + plan.up - 1) / plan.up, padded_length = blocks * plan.down + 2 * plan.reach;
  const Array padded = temporaries.empty({padded_length}, DType::float32, device);
  const Array results = temporaries.empty({blocks, plan.up}, DType::float32, device);
  const Array windows(padded.storage(), DType::float32, {blocks, plan.taps()}, {plan.down, 1}, padded.offset_bytes());
  fill(padded, Scalar(0.0));
  const int64_t rows = signal.ndim() == 1 ? 1 : signal.shape(0), used = std::min(n, padded_length - plan.reach);
  for (int64_t i = 0; i < rows; ++i) {
    const Array row = signal.ndim() == 1 ? signal : signal.select(0, i);
    copy_into(padded.narrow(0, plan.reach, used), row.narrow(0, 0, used));
    matmul(windows, filters, &results);
    copy_into(target.ndim() == 1 ? target : target.select(0, i),
              results.reshape_view({blocks * plan.up}).narrow(0, 0, length));
  }
  return target;
}

}  // namespace gpukit::audio
