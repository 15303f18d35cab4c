// Tests of eviction: a pool of pages on the fake driver, and an account of 16 MiB that evicts.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "gpukit/driver/host_table.h"
#include "gpukit/memory/hold.h"
#include "gpukit/memory/pool.h"
#include "tests/support/fake_driver.h"

namespace gpukit::memory {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;
using StoragePtr = std::shared_ptr<Storage>;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr int kOwnDevice = 3;  // one that no other test leaves memory on

struct ResidencyTest : ::testing::Test {
  static driver::Api started(const driver::CudaTable& table) {
    driver::set_host_device_count(kOwnDevice + 1);
    driver::Api api(table, DeviceKind::cpu);
    api.init();
    return api;
  }
  ~ResidencyTest() override { driver::set_host_device_count(1); }
  FakeDriver fake;
  driver::Context context{started(fake.table()), kOwnDevice};
  Pool pool{context, {.pages = PoolConfig::Pages::on, .host_limit = 256 * kMiB}};
  StreamPtr stream = std::make_shared<driver::Stream>(context, 0);
  std::shared_ptr<Account> account = Account::create("tenant", context.device(), 16 * kMiB, true, pool.root());

  StoragePtr make(size_t bytes, int value = -1) {
    StoragePtr storage = Storage::allocate(pool, bytes, stream, account);
    if (value >= 0) fill(storage, value);
    return storage;
  }

  struct Task {
    std::function<void(char*)> run;
    char* address;
  };
  /// Work on a stream with one block, as a launch does it.
  void run_on(const StreamPtr& on, const StoragePtr& storage, std::function<void(char*)> work) {
    const Use use{&storage, 0, true};
    const Hold hold({&use, 1});
    std::unique_ptr<Task> task(new Task{std::move(work), reinterpret_cast<char*>(storage->address())});
    context.make_current();
    context.api().launch_host(
        on->handle(),
        [](void* p) {
          std::unique_ptr<Task> owned(static_cast<Task*>(p));
          owned->run(owned->address);
        },
        task.get());
    task.release();
    storage->note_use(on);
  }
  void fill(const StoragePtr& storage, int value, StreamPtr on = nullptr) {
    run_on(on != nullptr ? on : stream, storage, [value, n = storage->bytes()](char* p) { std::memset(p, value, n); });
  }
  bool holds(const StoragePtr& storage, int value) {
    bool right = true;
    run_on(stream, storage, [&right, value, n = storage->bytes()](char* p) {
      right = p[0] == static_cast<char>(value) && std::memcmp(p, p + 1, n - 1) == 0;
    });
    stream->synchronize();
    return right;
  }
};

}  // namespace gpukit::memory
