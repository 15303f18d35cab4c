#include "tests/support/testing.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "gpukit/array/host.h"
#include "gpukit/base/env.h"
#include "gpukit/base/half.h"
#include "gpukit/base/scalar.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/runtime/device.h"

namespace gpukit::testing {

namespace {

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::complex<double> element(const char* at, DType dtype) {
  switch (dtype) {
    case DType::boolean: return load<uint8_t>(at) != 0 ? 1.0 : 0.0;
    case DType::int8: return load<int8_t>(at);
    case DType::int16: return load<int16_t>(at);
    case DType::int32: return load<int32_t>(at);
    case DType::int64: return static_cast<double>(load<int64_t>(at));
    case DType::uint8: return load<uint8_t>(at);
    case DType::uint16: return load<uint16_t>(at);
    case DType::uint32: return load<uint32_t>(at);
    case DType::uint64: return static_cast<double>(load<uint64_t>(at));
    case DType::float16: return to_float(load<half>(at));
    case DType::bfloat16: return to_float(load<bfloat16>(at));
    case DType::float32: return load<float>(at);
    case DType::float64: return load<double>(at);
    case DType::complex64: return std::complex<double>(load<std::complex<float>>(at));
    case DType::complex128: return load<std::complex<double>>(at);
    case DType::float8_e4m3: return to_float(load<float8_e4m3>(at));
    case DType::float8_e5m2: return to_float(load<float8_e5m2>(at));
    case DType::int4:
    case DType::float4_e2m1: return load<uint8_t>(at);
  }
  return NAN;
}

Scalar scalar_for(double value, DType dtype) {
  if (dtype == DType::boolean) return Scalar(value >= 0.5);
  if (is_integer(dtype)) return Scalar(static_cast<int64_t>(value));
  return Scalar(value);
}

}  // namespace

std::string no_gpu_reason() { return runtime::cuda_unavailable_reason(); }
bool gpu_is_required() { return env::require_gpu(); }

std::vector<Device> test_devices() {
  if (gpu_is_required() || no_gpu_reason().empty()) return {kCpu, kCuda};
  return {kCpu};
}

std::string device_test_name(const ::testing::TestParamInfo<Device>& info) {
  return info.param.kind == DeviceKind::cpu ? "cpu" : "cuda";
}

std::vector<double> random_values(size_t count, uint64_t seed, double low, double high) {
  std::vector<double> values(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
  for (double& value : values) {
    // splitmix64: the standard library's distributions differ between systems.
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    value = low + (high - low) * (static_cast<double>(z >> 11) * 0x1p-53);
  }
  return values;
}

Array make_array(std::span<const double> values, const Dims& shape, DType dtype, Device device) {
  const size_t size = static_cast<size_t>(itemsize(dtype));
  std::vector<char> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    ElementBytes one = to_element("make_array", scalar_for(values[i], dtype), dtype);
    std::memcpy(bytes.data() + i * size, one.bytes, size);
  }
  return from_host(bytes.data(), shape, dtype, device);
}

std::vector<std::complex<double>> to_complex(const Array& array) {
  Array plain = contiguous(array);
  std::vector<char> bytes(static_cast<size_t>(plain.nbytes()));
  to_host(bytes.data(), plain);
  std::vector<std::complex<double>> values(static_cast<size_t>(plain.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element(bytes.data() + i * static_cast<size_t>(itemsize(plain.dtype())), plain.dtype());
  }
  return values;
}

std::vector<double> to_doubles(const Array& array) {
  std::vector<double> values;
  for (const std::complex<double>& value : to_complex(array)) values.push_back(value.real());
  return values;
}

::testing::AssertionResult all_close(std::span<const double> got, std::span<const double> expected, double rtol,
                                     double atol) {
  if (got.size() != expected.size()) {
    return ::testing::AssertionFailure() << got.size() << " elements, expected " << expected.size();
  }
  size_t wrong = 0, worst = 0;
  double worst_excess = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    double excess = std::abs(got[i] - expected[i]) - (atol + rtol * std::abs(expected[i]));
    if (excess <= 0) continue;
    if (std::isnan(excess)) excess = INFINITY;
    if (wrong++ == 0 || excess > worst_excess) {
      worst = i;
      worst_excess = excess;
    }
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << got.size() << " elements differ; worst at " << worst
                                       << ": got " << ::testing::PrintToString(got[worst]) << ", expected "
                                       << ::testing::PrintToString(expected[worst]) << " (rtol " << rtol << ", atol "
                                       << atol << ")";
}

::testing::AssertionResult all_close(const Array& got, std::span<const double> expected, double rtol, double atol) {
  return all_close(to_doubles(got), expected, rtol, atol);
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::float16: return 0x1p-11;
    case DType::bfloat16: return 0x1p-8;
    case DType::float32:
    case DType::complex64: return 0x1p-24;
    case DType::float64:
    case DType::complex128: return 0x1p-53;
    case DType::float8_e4m3: return 0x1p-4;
    case DType::float8_e5m2: return 0x1p-3;
    default: return 0;
  }
}

}  // namespace gpukit::testing
