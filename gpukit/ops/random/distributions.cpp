#include "gpukit/ops/random/distributions.h"

#include <cmath>
#include <string>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/random/distributions_impl.h"
#include "gpukit/runtime/device.h"

namespace gpukit::random {
namespace {

constexpr double kMostWhole = 1e12;  // beyond it float64 cannot tell logarithms of factorials apart

[[noreturn]] void refuse(const char* op, const char* argument, const char* needed, double given) {
  throw ArgumentError(op, argument, needed, std::to_string(given));
}

void check_shape_number(const char* op, const char* argument, double value) {
  if (!(value >= 1e-300) || !std::isfinite(value)) refuse(op, argument, "be finite and at least 1e-300", value);
}

void check_scale(const char* op, double value) {
  if (!(value >= 0) || !std::isfinite(value)) refuse(op, "scale", "be 0 or above and finite", value);
}

GammaShape gamma_shape(double shape) {
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
  return {d, 1 / std::sqrt(9 * d), shape < 1 ? 1 / shape : 0};
}

DType chosen(const Request& request, const Array* out, DType standard) {
  if (request.dtype) return *request.dtype;
  return out != nullptr ? out->dtype() : standard;
}

/// Filled in a dtype that the backends have; another one, or an `out` that is not row-major, is cast to.
Array fill_with(const char* op, const Request& request, DType dtype, const Distribution& d, const Array* out) {
  const DType drawn = is_integer(dtype) ? DType::int64 : dtype;
  const Device device = request.device ? *request.device : out != nullptr ? out->device() : runtime::default_device();
  checked_bytes(op, request.shape, itemsize(drawn));
  const Array target = result(op, out, request.shape, dtype, device);
  Temporaries temporaries(op);
  const bool direct = drawn == dtype && target.is_contiguous();
  const Array fill = direct ? target : temporaries.empty(request.shape, drawn, device);
  Generator& generator = request.generator != nullptr ? *request.generator : default_generator();
  const State state = request.state ? *request.state : generator.take(op, kOffsetsPerCall);
  if (fill.size() == 0) return target;
  switch (device.kind) {
    case DeviceKind::cpu: cpu::random_distribution(fill, state, d); break;
    case DeviceKind::cuda: cuda::random_distribution(fill, state, d); break;
  }
  if (!direct) copy_into(target, fill);
  return target;
}

Array fill_real(const char* op, const Request& request, const Distribution& d, const Array* out) {
  const DType dtype = chosen(request, out, DType::float32);
  if (dtype != DType::float32 && dtype != DType::float64)
    throw DTypeError(op, "dtype", "be float32 or float64", name(dtype));
  return fill_with(op, request, dtype, d, out);
}

Array fill_whole(const char* op, const Request& request, const Distribution& d, const Array* out) {
  const DType dtype = chosen(request, out, DType::int64);
  if (!is_integer(dtype)) throw DTypeError(op, "dtype", "be an integer dtype", name(dtype));
  Distribution limited = d;
  const int bits = static_cast<int>(8 * itemsize(dtype)) - (is_unsigned_integer(dtype) ? 0 : 1);
  limited.most = std::min(kNoLimit, std::ldexp(1.0, bits) - 1);
  return fill_with(op, request, dtype, limited, out);
}

}  // namespace

Array exponential(const Request& request, double scale, const Array* out) {
  check_scale("random.exponential", scale);
  Distribution d;
  d.law = Law::exponential;
  d.scale = scale;
  return fill_real("random.exponential", request, d, out);
}

Array gamma(const Request& request, double shape, double scale, const Array* out) {
  check_shape_number("random.gamma", "shape", shape);
  check_scale("random.gamma", scale);
  Distribution d;
  d.law = Law::gamma;
  d.scale = scale;
  d.x = gamma_shape(shape);
  return fill_real("random.gamma", request, d, out);
}

Array beta(const Request& request, double a, double b, const Array* out) {
  check_shape_number("random.beta", "a", a);
  check_shape_number("random.beta", "b", b);
  Distribution d;
  d.law = Law::beta;
  d.x = gamma_shape(a);
  d.y = gamma_shape(b);
  return fill_real("random.beta", request, d, out);
}

Array poisson(const Request& request, double mean, const Array* out) {
  if (!(mean >= 0) || mean > kMostWhole) refuse("random.poisson", "lam", "be in [0, 1e12]", mean);
  Distribution d;
  d.law = Law::poisson;
  d.count = kNoLimit;
  d.mean = mean;
  d.by_search = mean < 10;
  d.first = std::exp(-mean);
  if (!d.by_search) {  // Hoermann 1993, PTRS
    const double spread = std::sqrt(mean);
    d.b = 0.931 + 2.53 * spread;
    d.a = -0.059 + 0.02483 * d.b;
    d.alpha = 1.1239 + 1.1328 / (d.b - 3.4);
    d.squeeze = 0.9277 - 3.6224 / (d.b - 2);
    d.centre = mean + 0.43;
    d.base = -mean;
    d.log_ratio = std::log(mean);
  }
  return fill_whole("random.poisson", request, d, out);
}

Array binomial(const Request& request, int64_t n, double p, const Array* out) {
  if (n < 0 || static_cast<double>(n) > kMostWhole)
    throw ArgumentError("random.binomial", "n", "be in [0, 1e12]", std::to_string(n));
  if (!(p >= 0 && p <= 1)) refuse("random.binomial", "p", "be in [0, 1]", p);
  Distribution d;
  d.law = Law::binomial;
  d.count = static_cast<double>(n);
  d.flipped = p > 0.5;
  const double chance = d.flipped ? 1 - p : p;
  const double mean = d.count * chance;
  d.ratio = chance / (1 - chance);
  d.by_search = mean < 10;
  d.first = std::exp(d.count * std::log1p(-chance));
  if (!d.by_search) {  // Hoermann 1993, BTRS
    const double spread = std::sqrt(mean * (1 - chance));
    d.b = 1.15 + 2.53 * spread;
    d.a = -0.0873 + 0.0248 * d.b + 0.01 * chance;
    d.centre = mean + 0.5;
    d.squeeze = 0.92 - 4.2 / d.b;
    d.alpha = (2.83 + 5.1 / d.b) * spread;
    d.log_ratio = std::log(d.ratio);
    d.mode = std::floor((d.count + 1) * chance);
    d.base = log_factorial(d.mode) + log_factorial(d.count - d.mode);
  }
  return fill_whole("random.binomial", request, d, out);
}

Array geometric(const Request& request, double p, const Array* out) {
  if (!(p > 0 && p <= 1)) refuse("random.geometric", "p", "be in (0, 1]", p);
  Distribution d;
  d.law = Law::geometric;
  d.ratio = 1 / std::log1p(-p);
  return fill_whole("random.geometric", request, d, out);
}

State jumped(const State& state, uint64_t jumps) { return {state.seed, state.offset + (jumps << 40)}; }

std::vector<uint64_t> spawn(Generator& generator, int64_t count) {
  if (count < 0) throw ArgumentError("random.spawn", "n_children", "not be negative", std::to_string(count));
  const State state = generator.take("random.spawn");
  std::vector<uint64_t> seeds;
  // The upper half of the blocks is no element's.
  for (int64_t i = 0; i < count; ++i)
    seeds.push_back(Draws<uint64_t>::word(philox(state.seed, state.offset, ~static_cast<uint64_t>(i)), 0));
  return seeds;
}

}  // namespace gpukit::random
