#include "gpukit/ops/common/tables.h"

#include <map>
#include <mutex>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/fork.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_group.h"

namespace gpukit {

namespace {

constexpr int64_t kMaxKeptBytes = int64_t{128} << 20;

struct Tables {
  std::mutex mutex;
  std::map<std::pair<int, TableKey>, Array> arrays;
  std::map<int, int64_t> bytes;  // of each device
};

Tables& tables() {
  static auto* value = new Tables;
  return *value;
}

std::mutex& tables_mutex() { return tables().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<tables_mutex>();

/// On a stream of its own and charged to nobody's quota: calls of every session will read it.
Array make_table(const Dims& shape, DType dtype, Device device, const std::function<void(const Array&)>& make) {
  const runtime::Session nobody = runtime::Session{}.with_device(device);
  const runtime::SessionGuard outside(nobody);
  const std::shared_ptr<driver::Stream> lane = runtime::new_stream(device, 0, false);
  const runtime::Session session = nobody.with_stream(lane);
  const runtime::SessionGuard inside(session);
  const Array table = Array::empty(shape, dtype, device);
  make(table);
  lane->synchronize();
  return table;
}

}  // namespace

Array kept_table(const TableKey& key, const Dims& shape, DType dtype, Device device, Temporaries& temporaries,
                 const std::function<void(const Array&)>& make) {
  Tables& all = tables();
  const std::pair<int, TableKey> where{device.index, key};
  {
    std::lock_guard lock(all.mutex);
    if (const auto found = all.arrays.find(where); found != all.arrays.end()) return found->second;
  }
  const int64_t bytes = shape.product() * itemsize(dtype);
  if (runtime::thread_capture() != nullptr || bytes > kMaxKeptBytes / 2) {
    const Array table = temporaries.empty(shape, dtype, device);
    make(table);
    return table;
  }
  const Array table = make_table(shape, dtype, device, make);
  std::map<std::pair<int, TableKey>, Array> dropped;  // they go after the lock
  std::lock_guard lock(all.mutex);
  if (all.bytes[device.index] + bytes > kMaxKeptBytes) {
    for (auto at = all.arrays.begin(); at != all.arrays.end();) {
      const auto entry = at++;
      if (entry->first.first == device.index) dropped.insert(all.arrays.extract(entry));
    }
    all.bytes[device.index] = 0;
  }
  if (all.arrays.emplace(where, table).second) all.bytes[device.index] += bytes;
  return table;
}

}  // namespace gpukit
