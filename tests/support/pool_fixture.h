// Tests of the pool on the host table: with ranges of pages, and with plain driver blocks.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "gpukit/driver/host_table.h"
#include "gpukit/memory/pool.h"

namespace gpukit::memory {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr int kOwnDevice = 3;  // one that no other test leaves memory on

class PoolTest : public ::testing::TestWithParam<PoolConfig::Pages> {
 protected:
  static driver::Api started() {
    driver::set_host_device_count(kOwnDevice + 1);
    driver::Api api(driver::host_table(), DeviceKind::cpu);
    api.init();
    return api;
  }
  static PoolConfig config() { return {.pages = GetParam()}; }
  bool pages() const { return GetParam() == PoolConfig::Pages::on; }
  std::shared_ptr<driver::Stream> stream() { return std::make_shared<driver::Stream>(context, 0); }
  ~PoolTest() override {
    driver::set_host_memory_limit(0);
    driver::set_host_device_count(1);
  }

  driver::Context context{started(), kOwnDevice};
  Pool pool{context, config()};
};

inline std::string pages_name(const ::testing::TestParamInfo<PoolConfig::Pages>& info) {
  return info.param == PoolConfig::Pages::on ? "on" : "off";
}

#define GPUKIT_WITH_AND_WITHOUT_PAGES(Suite) \
  INSTANTIATE_TEST_SUITE_P(Pages, Suite, ::testing::Values(PoolConfig::Pages::on, PoolConfig::Pages::off), pages_name)

}  // namespace gpukit::memory
