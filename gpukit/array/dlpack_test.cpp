#include "gpukit/array/dlpack.h"

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using dlpack::DLDataType;
using dlpack::DLTensor;

class DLPack : public testing::DeviceTest {};
GPUKIT_ON_DEVICES(DLPack);

Array counted(const Dims& shape, DType dtype, Device device) {
  std::vector<double> values(static_cast<size_t>(shape.product()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 100);
  return testing::make_array(values, shape, dtype, device);
}

TEST(DLPackTypes, EveryDtypeRoundTrips) {
  for (int i = 0; i < kNumDTypes; ++i) {
    DType dtype = static_cast<DType>(i);
    if (is_packed(dtype)) continue;
    EXPECT_EQ(dlpack::from_dl_dtype(dlpack::to_dl_dtype(dtype, {1, 1})), dtype) << name(dtype);
  }
}

TEST(DLPackTypes, SomeCannotBeRepresented) {
  EXPECT_THROW(dlpack::to_dl_dtype(DType::int4, {1, 1}), ExchangeError);
  EXPECT_THROW(dlpack::to_dl_dtype(DType::float4_e2m1, {1, 1}), ExchangeError);
  EXPECT_THROW(dlpack::to_dl_dtype(DType::float8_e4m3, {1, 0}), ExchangeError);
  EXPECT_THROW(dlpack::to_dl_dtype(DType::float8_e5m2, {0, 0}), ExchangeError);
  EXPECT_THROW(dlpack::from_dl_dtype(DLDataType{dlpack::kFloat, 32, 4}), ExchangeError);
  EXPECT_THROW(dlpack::from_dl_dtype(DLDataType{dlpack::kInt, 4, 1}), ExchangeError);
  EXPECT_THROW(dlpack::from_dl_dtype(DLDataType{3, 64, 1}), ExchangeError);
  EXPECT_THROW(dlpack::from_dl_device({7, 0}), ExchangeError);
}

TEST(DLPackTypes, DeviceNumbersAreNotCut) {
  EXPECT_THROW(dlpack::from_dl_device({dlpack::kCpu, 1 << 16}), ExchangeError);
  EXPECT_THROW(dlpack::from_dl_device({dlpack::kCuda, -1}), ExchangeError);
}

TEST(DLPackTypes, TensorsThatCannotBeAreRefused) {
  alignas(8) static float data[4] = {};
  constexpr int64_t kHuge = int64_t{1} << 62;
  const auto refused = [](void* at, std::vector<int64_t> shape, std::vector<int64_t> strides) {
    DLTensor tensor{};
    tensor.data = at;
    tensor.device = {dlpack::kCpu, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {dlpack::kFloat, 32, 1};
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
    bool released = false;
    try {
      dlpack::import(tensor, [&] { released = true; });
    } catch (const ExchangeError&) {
      return !released;
    }
    return false;
  };
  EXPECT_TRUE(refused(data, {kHuge + 1, 4}, {}));
  EXPECT_TRUE(refused(data, {-1}, {}));
  EXPECT_TRUE(refused(data, {2}, {kHuge}));
  EXPECT_TRUE(refused(data, {2, 2}, {INT64_MAX, INT64_MAX}));
  EXPECT_TRUE(refused(data, {4}, {INT64_MIN}));
  EXPECT_TRUE(refused(nullptr, {4}, {}));
  EXPECT_TRUE(refused(reinterpret_cast<char*>(data) + 1, {2}, {}));
  EXPECT_FALSE(refused(data, {4, 1}, {1, INT64_MIN}));
  EXPECT_FALSE(refused(nullptr, {4, 0}, {INT64_MAX, INT64_MAX}));
}

TEST_P(DLPack, ExportSharesMemoryAndKeepsIt) {
  Array x = counted({3, 4}, DType::float32, device());
  std::weak_ptr<memory::Storage> storage = x.storage();
  auto managed = dlpack::export_versioned(x.transpose(), false, {1, 1}, 0);
  const DLTensor& t = managed->dl_tensor;
  EXPECT_EQ(t.data, reinterpret_cast<void*>(x.storage()->address()));
  EXPECT_EQ(t.ndim, 2);
  EXPECT_EQ(t.shape[0], 4);
  EXPECT_EQ(t.strides[0], 1);
  EXPECT_EQ(t.strides[1], 4);
  EXPECT_EQ(managed->flags, 0u);
  x = Array();
  EXPECT_FALSE(storage.expired());
  managed.reset();
  EXPECT_TRUE(storage.expired());
}

TEST_P(DLPack, OverlappingViewsAreReadOnly) {
  Array wide = counted({4}, DType::int32, device()).broadcast_to({3, 4});
  EXPECT_EQ(dlpack::export_versioned(wide, false, {1, 0}, 0)->flags, dlpack::kReadOnly);
  EXPECT_EQ(dlpack::export_versioned(counted({4}, DType::int32, device()), true, {1, 0}, 0)->flags, dlpack::kIsCopied);
}

TEST_P(DLPack, ImportReleasesOnce) {
  Array x = counted({3, 4}, DType::int16, device());
  auto managed = dlpack::export_legacy(x, 0);
  int released = 0;
  {
    Array y = dlpack::import(managed->dl_tensor, [&] { ++released; });
    EXPECT_EQ(testing::to_doubles(y), testing::to_doubles(x));
    Array row = y.select(0, 1);
    y = Array();
    EXPECT_EQ(released, 0);
  }
  memory::run_pending_releases(true);
  EXPECT_EQ(released, 1);
}

TEST_P(DLPack, ImportTakesNegativeAndMissingStrides) {
  Array x = counted({2, 3}, DType::float64, device());
  auto managed = dlpack::export_legacy(x, 0);
  DLTensor t = managed->dl_tensor;
  t.strides = nullptr;
  EXPECT_TRUE(dlpack::import(t, nullptr).is_contiguous());
  int64_t strides[2] = {-3, -1};
  t.strides = strides;
  t.byte_offset = 5 * sizeof(double);
  EXPECT_EQ(testing::to_doubles(dlpack::import(t, nullptr)), (std::vector<double>{5, 4, 3, 2, 1, 0}));
}

TEST_P(DLPack, BadTensorsAreRefusedWithoutRelease) {
  Array x = counted({4}, DType::float32, device());
  auto managed = dlpack::export_legacy(x, 0);
  int released = 0;
  auto refuse = [&](auto&& change) {
    DLTensor t = managed->dl_tensor;
    change(t);
    EXPECT_THROW(dlpack::import(t, [&] { ++released; }), ExchangeError);
  };
  refuse([](DLTensor& t) { t.ndim = kMaxRank + 1; });
  refuse([](DLTensor& t) { t.dtype.lanes = 2; });
  refuse([](DLTensor& t) { t.device.device_type = 8; });
  int64_t negative = -4;
  refuse([&](DLTensor& t) { t.shape = &negative; });
  EXPECT_EQ(released, 0);
}

TEST_P(DLPack, EmptyArrays) {
  Array x = Array::empty({0, 3}, DType::float32, device());
  auto managed = dlpack::export_versioned(x, false, {1, 0}, 0);
  EXPECT_EQ(dlpack::import(managed->dl_tensor, nullptr).shape(), (Dims{0, 3}));
}

TEST_P(DLPack, PublishWaitsForWork) {
  Array x = counted({1000}, DType::float32, device());
  dlpack::publish(x, 1);
  EXPECT_EQ(testing::to_doubles(x)[5], 5);
}

TEST_P(DLPack, HostCopiesRoundTrip) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  Array x = from_host(values.data(), {2, 3}, DType::float32, device());
  std::vector<float> back(6);
  to_host(back.data(), x);
  EXPECT_EQ(back, values);
  EXPECT_THROW(to_host(back.data(), x.transpose()), ArgumentError);
  EXPECT_EQ(testing::to_doubles(to_device(x, testing::kCpu)), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(to_device(x, device()).storage(), x.storage());
}

}  // namespace
}  // namespace gpukit
