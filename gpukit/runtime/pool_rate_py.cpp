// _bench_pool: the host cost of a block that the pool has at hand.
#include <algorithm>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/runtime/device.h"

namespace gpukit {

namespace {

/// Median nanoseconds of taking a block and giving it back on the default stream.
double measure_pool(int count) {
  runtime::DeviceState& state = runtime::open_device(runtime::default_device());
  state.context.make_current();
  const auto stream = state.default_stream;
  std::vector<double> rounds;
  for (int round = 0; round < 9; ++round) {
    const int64_t begin = real_clock().now_ns();
    for (int i = 0; i < count; ++i) state.resource->release(state.resource->allocate(4096, stream), stream, {});
    rounds.push_back(static_cast<double>(real_clock().now_ns() - begin) / count);
  }
  std::nth_element(rounds.begin(), rounds.begin() + 4, rounds.end());
  return rounds[4];
}

}  // namespace

void bind_pool_rate(nb::module_& m) {
  python::runtime_module(m).def("_bench_pool", &measure_pool, "count"_a = 100000, nb::call_guard<python::GilReleased>(),
                                "Nanoseconds of taking a block from the pool and giving it back, a hit each time.");
}

}  // namespace gpukit
