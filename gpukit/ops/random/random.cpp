#include "gpukit/ops/random/random.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "gpukit/base/fork.h"
#include "gpukit/base/half.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/random/random_impl.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::random {
namespace {

/// What is filled, and where it goes afterwards when `out` is not row-major.
struct Target {
  Target(const char* op, const Request& request, DType dtype, const Array* out) : temporaries(op) {
    const Device device = request.device ? *request.device : out != nullptr ? out->device() : runtime::default_device();
    checked_bytes(op, request.shape, itemsize(dtype));
    result = gpukit::result(op, out, request.shape, dtype, device);
    fill = result.is_contiguous() ? result : temporaries.empty(request.shape, dtype, device);
  }
  void finish() const {
    if (fill.size() > 0 && !result.is_contiguous()) copy_into(result, fill);
  }
  Temporaries temporaries;
  Array fill, result;
};

State state_of(const char* op, const Request& request) {
  if (request.state) return *request.state;
  return (request.generator != nullptr ? *request.generator : default_generator()).take(op);
}

DType chosen(const Request& request, const Array* out, DType standard) {
  if (request.dtype) return *request.dtype;
  return out != nullptr ? out->dtype() : standard;
}

void check_float(const char* op, DType dtype) {
  if (!is_floating(dtype)) throw DTypeError(op, "dtype", "be a float dtype", name(dtype));
}

template <typename C>
C finite(const char* op, const char* argument, double value) {
  const C rounded = static_cast<C>(value);
  if (!std::isfinite(rounded))
    throw ArgumentError(op, argument, "be finite in the dtype's arithmetic", std::to_string(value));
  return rounded;
}

/// The largest value of `dtype` below `high`, for dtypes computed in float.
float below(DType dtype, float high) {
  if (dtype == DType::float32) return std::nextafter(high, -INFINITY);
  // 16-bit floats: rounding may land on or above; one step down in their own spacing then does it.
  const auto step = [&](uint16_t bits, auto load) {
    if (load(bits) < high) return load(bits);
    if ((bits & 0x7fffu) == 0) return load(0x8001);
    return load(static_cast<uint16_t>((bits & 0x8000u) != 0 ? bits + 1 : bits - 1));
  };
  if (dtype == DType::float16) return step(to_half(high).bits, [](uint16_t b) { return to_float(half{b}); });
  return step(to_bfloat16(high).bits, [](uint16_t b) { return to_float(bfloat16{b}); });
}
double below(DType, double high) { return std::nextafter(high, -INFINITY); }

template <typename C>
UniformRange<C> uniform_range(DType dtype, double low, double high) {
  UniformRange<C> range;
  range.low = finite<C>("random.uniform", "low", low);
  range.high = finite<C>("random.uniform", "high", high);
  if (!(low <= high)) throw ArgumentError("random.uniform", "high", "not be below low", std::to_string(high));
  range.span = range.high - range.low;
  if (!std::isfinite(range.span))
    throw ArgumentError("random.uniform", "high", "have a finite distance to low", std::to_string(high));
  range.below = range.low < range.high ? below(dtype, range.high) : range.low;
  if (range.below < range.low) range.below = range.low;
  return range;
}

template <typename C>
NormalParameters<C> normal_parameters(double mean, double std) {
  if (!(std >= 0)) throw ArgumentError("random.normal", "std", "not be negative", std::to_string(std));
  return {finite<C>("random.normal", "mean", mean), finite<C>("random.normal", "std", std)};
}

template <typename Parameters>
void run_uniform(const Array& out, State state, const Parameters& range) {
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::random_uniform(out, state, range); break;
    case DeviceKind::cuda: cuda::random_uniform(out, state, range); break;
  }
}

template <typename Parameters>
void run_normal(const Array& out, State state, const Parameters& parameters) {
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::random_normal(out, state, parameters); break;
    case DeviceKind::cuda: cuda::random_normal(out, state, parameters); break;
  }
}

std::string text_of(const Scalar& s) {
  return s.is_unsigned_above ? std::to_string(static_cast<uint64_t>(s.integer)) : std::to_string(s.integer);
}

bool less(const Scalar& a, const Scalar& b) {
  if (a.is_unsigned_above != b.is_unsigned_above) return b.is_unsigned_above;
  return a.is_unsigned_above ? static_cast<uint64_t>(a.integer) < static_cast<uint64_t>(b.integer)
                             : a.integer < b.integer;
}

}  // namespace

void Generator::seed(uint64_t seed) { set_state({seed, 0}); }

State Generator::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(const State& state) {
  std::lock_guard lock(mutex_);
  state_ = state;
}

State Generator::take(const char* op, uint64_t count) {
  runtime::refuse_in_capture(op, "draws from the random state (pass seed= for numbers that every replay repeats)");
  std::lock_guard lock(mutex_);
  State taken = state_;
  state_.offset += count;
  return taken;
}

Generator& default_generator() {
  static Generator* const leaked = new Generator;
  return *leaked;
}

namespace {
[[maybe_unused]] const bool g_made_at_load = made_at_load<default_generator>();
}  // namespace

Array uniform(const Request& request, double low, double high, const Array* out) {
  const DType dtype = chosen(request, out, DType::float32);
  check_float("random.uniform", dtype);
  const auto run = [&](const auto& range) {
    const Target target("random.uniform", request, dtype, out);
    const State state = state_of("random.uniform", request);
    if (target.fill.size() > 0) run_uniform(target.fill, state, range);
    target.finish();
    return target.result;
  };
  return dtype == DType::float64 ? run(uniform_range<double>(dtype, low, high))
                                 : run(uniform_range<float>(dtype, low, high));
}

Array normal(const Request& request, double mean, double std, const Array* out) {
  const DType dtype = chosen(request, out, DType::float32);
  check_float("random.normal", dtype);
  const auto run = [&](const auto& parameters) {
    const Target target("random.normal", request, dtype, out);
    const State state = state_of("random.normal", request);
    if (target.fill.size() > 0) run_normal(target.fill, state, parameters);
    target.finish();
    return target.result;
  };
  return dtype == DType::float64 ? run(normal_parameters<double>(mean, std)) : run(normal_parameters<float>(mean, std));
}

Array randint(const Request& request, const Scalar& low, const Scalar& high, const Array* out) {
  const DType dtype = chosen(request, out, DType::int64);
  if (!is_integer(dtype)) throw DTypeError("random.randint", "dtype", "be an integer dtype", name(dtype));
  for (const Scalar* s : {&low, &high})
    if (s->kind == ScalarKind::real || s->kind == ScalarKind::complex)
      throw ArgumentError("random.randint", s == &low ? "low" : "high", "be an integer", std::to_string(s->real));
  if (!less(low, high)) throw ArgumentError("random.randint", "high", "be above low = " + text_of(low), text_of(high));
  to_element("random.randint", low, dtype);
  // high - 1 as a scalar again; 2^63 steps back into the signed range.
  const uint64_t last = static_cast<uint64_t>(high.integer) - 1;
  const bool above = high.is_unsigned_above && last > static_cast<uint64_t>(INT64_MAX);
  to_element("random.randint", above ? Scalar::from_unsigned(last) : Scalar(static_cast<int64_t>(last)), dtype);

  const IntegerRange range{static_cast<uint64_t>(low.integer),
                           static_cast<uint64_t>(high.integer) - static_cast<uint64_t>(low.integer)};
  const Target target("random.randint", request, dtype, out);
  const State state = state_of("random.randint", request);
  if (target.fill.size() > 0) {
    switch (target.fill.device().kind) {
      case DeviceKind::cpu: cpu::random_integer(target.fill, state, range); break;
      case DeviceKind::cuda: cuda::random_integer(target.fill, state, range); break;
    }
  }
  target.finish();
  return target.result;
}

}  // namespace gpukit::random
