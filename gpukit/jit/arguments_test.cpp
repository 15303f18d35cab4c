// Packing the arguments of user kernels: conversions, ranges, errors that name kernel and parameter, launch sizes.
#include "gpukit/jit/arguments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "gpukit/base/error.h"
#include "gpukit/base/half.h"
#include "gpukit/jit/user_kernel.h"
#include "gpukit/runtime/device.h"

namespace gpukit::jit {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

/// Parameters from the letters of the mangling: `Pf` and so on, named a, b, c ...
std::vector<Parameter> signature(const std::string& mangled) {
  std::vector<Parameter> result;
  char name = 'a';
  for (const ParameterType& type : parse_probe("_Z12gpukit_probeIPFv" + mangled + "EEvv"))
    result.push_back({std::string(1, name++), type});
  return result;
}

Argument number(const Scalar& value) {
  Argument argument;
  argument.kind = Argument::Kind::number;
  argument.number = value;
  return argument;
}

class ArgumentsTest : public ::testing::Test {
 protected:
  ArgumentsTest() {
    runtime::DeviceState& state = runtime::open_device(kCpu);
    storage_ = memory::Storage::allocate(*state.resource, 4096, state.default_stream);
  }
  Argument array(DType dtype, int64_t size, int64_t offset = 0) {
    Argument argument;
    argument.kind = Argument::Kind::array;
    argument.dtype = dtype;
    argument.device = kCpu;
    argument.size = size;
    argument.use = {&storage_, offset, false};
    return argument;
  }
  const PackedCall& pack(const std::string& mangled, const std::vector<Argument>& arguments,
                         const LaunchOptions& options = {}) {
    const auto parameters = signature(mangled);
    pack_call("kernel", parameters, arguments, kCpu, options, 256, &call_);
    return call_;
  }
  template <typename T>
  T value(size_t i) const {
    T result;
    EXPECT_EQ(call_.sizes[i], sizeof(T));
    std::memcpy(&result, call_.pointers[i], sizeof(T));
    return result;
  }
  /// The message of what pack() throws.
  template <typename E>
  std::string failure(const std::string& mangled, const std::vector<Argument>& arguments,
                      const LaunchOptions& options = {}) {
    try {
      pack(mangled, arguments, options);
    } catch (const E& e) {
      return e.what();
    } catch (const std::exception& e) {
      return std::string("another class: ") + e.what();
    }
    return "nothing was thrown";
  }
  std::shared_ptr<memory::Storage> storage_;
  PackedCall call_;
  const LaunchOptions one_block_ = [] {
    LaunchOptions options;
    options.grid = Extent{};
    return options;
  }();
};

TEST_F(ArgumentsTest, ScalarsGetTheDeclaredType) {
  pack("bcahstijxyfd",
       {number(true), number(-3), number(-128), number(255), number(-32768), number(65535), number(-7),
        number(int64_t{4294967295}), number(std::numeric_limits<int64_t>::min()),
        number(Scalar::from_unsigned(~uint64_t{0})), number(0.1), number(0.1)},
       one_block_);
  EXPECT_EQ(value<bool>(0), true);
  EXPECT_EQ(value<int8_t>(1), -3);
  EXPECT_EQ(value<int8_t>(2), -128);
  EXPECT_EQ(value<uint8_t>(3), 255);
  EXPECT_EQ(value<int16_t>(4), -32768);
  EXPECT_EQ(value<uint16_t>(5), 65535);
  EXPECT_EQ(value<int32_t>(6), -7);
  EXPECT_EQ(value<uint32_t>(7), 4294967295u);
  EXPECT_EQ(value<int64_t>(8), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(value<uint64_t>(9), ~uint64_t{0});
  EXPECT_EQ(value<float>(10), 0.1f);
  EXPECT_EQ(value<double>(11), 0.1);
}

TEST_F(ArgumentsTest, FloatsOfEveryWidth) {
  pack("N6gpukit4halfE13__nv_bfloat16fffN6gpukit7complexIfEE",
       {number(1.5), number(2.5), number(3), number(std::numeric_limits<double>::infinity()), number(std::nan("")),
        number(std::complex<double>(1, 2))},
       one_block_);
  EXPECT_EQ(to_float(value<half>(0)), 1.5f);
  EXPECT_EQ(to_float(value<bfloat16>(1)), 2.5f);
  EXPECT_EQ(value<float>(2), 3.0f);
  EXPECT_TRUE(std::isinf(value<float>(3)));
  EXPECT_TRUE(std::isnan(value<float>(4)));
  EXPECT_EQ(value<std::complex<float>>(5), std::complex<float>(1, 2));
}

TEST_F(ArgumentsTest, OutOfRangeNamesKernelParameterAndRange) {
  EXPECT_EQ(failure<ArgumentError>("i", {number(int64_t{3000000000})}, one_block_),
            "kernel: a must be -2147483648 to 2147483647 for int, got 3000000000");
  EXPECT_EQ(failure<ArgumentError>("fh", {number(1.0), number(-1)}, one_block_),
            "kernel: b must be 0 to 255 for unsigned char, got -1");
  EXPECT_EQ(failure<ArgumentError>("x", {number(Scalar::from_unsigned(~uint64_t{0}))}, one_block_),
            "kernel: a must be -9223372036854775808 to 9223372036854775807 for long long, got 18446744073709551615");
  EXPECT_EQ(failure<ArgumentError>("b", {number(2)}, one_block_),
            "kernel: a must be True, False, 0 or 1 for bool, got 2");
  EXPECT_NE(failure<ArgumentError>("f", {number(1e39)}, one_block_).find("kernel: a must fit float"),
            std::string::npos);
  EXPECT_NE(failure<ArgumentError>("N6gpukit4halfE", {number(70000)}, one_block_).find("must fit gpukit::half"),
            std::string::npos);
  EXPECT_NO_THROW(pack("f", {number(3.4028235e38)}, one_block_));
}

TEST_F(ArgumentsTest, KindsAreNotMixed) {
  EXPECT_EQ(failure<DTypeError>("i", {number(1.5)}, one_block_), "kernel: a must be a number for int, got a float");
  EXPECT_EQ(failure<DTypeError>("f", {number(std::complex<double>(1, 1))}, one_block_),
            "kernel: a must be a number for float, got a complex");
  EXPECT_EQ(failure<DTypeError>("Pf", {number(1)}, one_block_), "kernel: a must be an array for float*, got an int");
  EXPECT_NE(failure<DTypeError>("f", {array(DType::float32, 1)}, one_block_).find("got an array"), std::string::npos);
  EXPECT_NE(failure<DTypeError>("Pff", {array(DType::float32, 1), Argument{}}).find("kernel: missing b"),
            std::string::npos);
  EXPECT_NE(failure<UnsupportedError>("1S", {number(1)}, one_block_).find("has the type S"), std::string::npos);
}

TEST_F(ArgumentsTest, ArraysBecomeAddressesAndUses) {
  pack("PfPKfPv", {array(DType::float32, 8, 16), array(DType::float32, 4, 64), array(DType::int8, 3)});
  EXPECT_EQ(value<uint64_t>(0), storage_->address() + 16);
  EXPECT_EQ(value<uint64_t>(1), storage_->address() + 64);
  ASSERT_EQ(call_.num_uses, 3u);
  EXPECT_TRUE(call_.uses[0].write);
  EXPECT_FALSE(call_.uses[1].write);
  EXPECT_TRUE(call_.uses[2].write);
  Argument null;
  null.kind = Argument::Kind::null;
  pack("PfPf", {array(DType::float32, 1), null});
  EXPECT_EQ(value<uint64_t>(1), 0u);
  EXPECT_EQ(call_.num_uses, 1u);
}

TEST_F(ArgumentsTest, ArraysAreCheckedAgainstThePointer) {
  EXPECT_EQ(failure<DTypeError>("Pf", {array(DType::float64, 1)}),
            "kernel: a must be an array of float32 for float*, got float64");
  EXPECT_NE(failure<DTypeError>("P1S", {array(DType::int32, 1)}).find("an array of uint8 for S*"), std::string::npos);
  Argument strided = array(DType::float32, 4);
  strided.contiguous = false;
  EXPECT_NE(failure<ArgumentError>("Pf", {strided}).find("contiguous"), std::string::npos);
  Argument elsewhere = array(DType::float32, 4);
  elsewhere.device = {DeviceKind::cpu, 1};
  EXPECT_NE(failure<DeviceError>("PfPf", {array(DType::float32, 4), elsewhere}).find("b is on cpu:1"),
            std::string::npos);
  EXPECT_NE(failure<ArgumentError>("P6float4", {array(DType::float32, 4, 4)}).find("multiple of 16 bytes"),
            std::string::npos);
  EXPECT_NO_THROW(pack("P6float4", {array(DType::float32, 4, 16)}));
}

TEST_F(ArgumentsTest, GridFromTheFirstArray) {
  auto grid = [&](int64_t size) {
    return pack("fPfPf", {number(1.0), array(DType::float32, size), array(DType::float32, 9)}).config.grid_x;
  };
  EXPECT_EQ(grid(0), 1u);
  EXPECT_EQ(grid(1), 1u);
  EXPECT_EQ(grid(256), 1u);
  EXPECT_EQ(grid(257), 2u);
  LaunchOptions options;
  options.block = Extent{8, 4, 2};
  options.shared_bytes = 100;
  const LaunchConfig config = pack("Pf", {array(DType::float32, 129)}, options).config;
  EXPECT_EQ(config.grid_x, 3u);
  EXPECT_EQ(config.block_x, 8u);
  EXPECT_EQ(config.block_y, 4u);
  EXPECT_EQ(config.block_z, 2u);
  EXPECT_EQ(config.shared_bytes, 100u);
  EXPECT_NE(failure<ArgumentError>("i", {number(1)}).find("grid_size must be given"), std::string::npos);
}

TEST_F(ArgumentsTest, SizesOutOfRange) {
  auto with = [&](Extent grid, Extent block, int64_t shared = 0) {
    LaunchOptions options;
    options.grid = grid;
    options.block = block;
    options.shared_bytes = shared;
    return failure<ArgumentError>("i", {number(1)}, options);
  };
  EXPECT_NE(with({0, 1, 1}, {1, 1, 1}).find("kernel: grid_size must be 1 to 2147483647, got 0"), std::string::npos);
  EXPECT_NE(with({1, 65536, 1}, {1, 1, 1}).find("grid_size must be 1 to 65535"), std::string::npos);
  EXPECT_NE(with({1, 1, 1}, {1025, 1, 1}).find("block_size must be 1 to 1024"), std::string::npos);
  EXPECT_NE(with({1, 1, 1}, {512, 4, 1}).find("block_size must be 1 to 1024, got 2048"), std::string::npos);
  EXPECT_NE(with({1, 1, 1}, {1, 1, 65}).find("block_size must be 1 to 64"), std::string::npos);
  EXPECT_NE(with({1, 1, 1}, {1, 1, 1}, -1).find("shared_mem"), std::string::npos);
  EXPECT_EQ(with({2147483647, 65535, 65535}, {1024, 1, 1}), "nothing was thrown");
}

TEST(UserKernel, ChecksWhatTheTextAllows) {
  const std::string source =
      "__global__ void scale(float* x, float f, int n) {}\ntemplate <class T> __global__ void t(T* x) {}";
  EXPECT_NO_THROW(UserKernel(source, "scale", {}, 256));
  EXPECT_NO_THROW(UserKernel(source, "t<float>", {}, 1024));
  auto message = [&](const std::string& function, int64_t block) -> std::string {
    try {
      UserKernel(source, function, {}, block);
    } catch (const ArgumentError& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message("missing", 256).rfind("Function 'missing' not found", 0), 0u);
  EXPECT_NE(message("missing", 256).find("scale, t"), std::string::npos);
  EXPECT_NE(message("t", 256).find("t<float>"), std::string::npos);
  EXPECT_NE(message("scale", 0).find("block_size"), std::string::npos);
  EXPECT_NE(message("", 256).find("func"), std::string::npos);
}

TEST(UserKernel, CallingWithoutAGpuNamesTheCause) {
  if (runtime::cuda_available()) GTEST_SKIP() << "there is a GPU";
  UserKernel kernel("__global__ void k(int* x) {}", "k", {}, 256);
  EXPECT_FALSE(kernel.compiled());
  try {
    kernel.prepare({DeviceKind::cuda, 0});
    FAIL() << "a kernel without a GPU was prepared";
  } catch (const DeviceError& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.rfind("CUDA driver not detected", 0) == 0 || text.rfind("No GPU devices found", 0) == 0) << text;
  }
}

}  // namespace
}  // namespace gpukit::jit
