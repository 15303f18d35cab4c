// Helpers of the C++ tests: devices to run on, reproducible data, comparison against float64 references.
#pragma once

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpukit/array/array.h"

namespace gpukit::testing {

inline constexpr Device kCpu{DeviceKind::cpu, 0};
inline constexpr Device kCuda{DeviceKind::cuda, 0};

/// cpu, and cuda:0 when there is one. Under PYGPUKIT_REQUIRE_GPU=1 cuda:0 is always there, so that a missing one fails.
std::vector<Device> test_devices();

/// TEST_P on every device: `class Add : public DeviceTest {}; GPUKIT_ON_DEVICES(Add); TEST_P(Add, ...) { ... device()
/// ... }`.
class DeviceTest : public ::testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
};
std::string device_test_name(const ::testing::TestParamInfo<Device>& info);
#define GPUKIT_ON_DEVICES(Suite)                                                                   \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::ValuesIn(::gpukit::testing::test_devices()), \
                           ::gpukit::testing::device_test_name)

/// First line of a test that needs a GPU: without one it skips, and fails under PYGPUKIT_REQUIRE_GPU=1.
#define GPUKIT_NEEDS_GPU()                                                  \
  if (std::string why = ::gpukit::testing::no_gpu_reason(); !why.empty()) { \
    if (::gpukit::testing::gpu_is_required()) FAIL() << why;                \
    GTEST_SKIP() << why;                                                    \
  }
std::string no_gpu_reason();
bool gpu_is_required();

/// Uniform in [low, high), the same for the same seed everywhere.
std::vector<double> random_values(size_t count, uint64_t seed, double low = -1, double high = 1);

/// A row-major array of the values rounded to `dtype`. Integers are truncated first; bool is value >= 0.5.
Array make_array(std::span<const double> values, const Dims& shape, DType dtype, Device device);
/// The elements in row-major order, whatever the strides. Complex arrays: to_complex.
std::vector<double> to_doubles(const Array& array);
std::vector<std::complex<double>> to_complex(const Array& array);

/// Equal, both NaN, or |got - expected| <= atol + rtol * |expected|. The message names the worst element.
::testing::AssertionResult all_close(std::span<const double> got, std::span<const double> expected, double rtol,
                                     double atol);
::testing::AssertionResult all_close(const Array& got, std::span<const double> expected, double rtol, double atol);

/// Relative error that one rounding to `dtype` may make; 0 for integers.
double epsilon(DType dtype);

}  // namespace gpukit::testing
