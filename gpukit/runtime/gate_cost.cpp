#include "gpukit/runtime/gate_cost.h"

#include <algorithm>
#include <memory>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::runtime {
namespace {

constexpr int kRounds = 40;

template <bool kGate>
void submit(const std::shared_ptr<driver::Stream>& stream, int64_t* calls) {
  auto call = [&] {
    return code_of([&] {
      stream->api().launch_host(
          stream->handle(), [](void* p) { ++*static_cast<int64_t*>(p); }, calls);
    });
  };
  if constexpr (kGate) {
    Submission submission(stream, "gate cost", SubmitKind::host_function);
    submission.done(call(), {});
  } else {
    stream->api().check(call(), "gate cost");
  }
}

template <bool kGate>
double round_ns(const std::shared_ptr<driver::Stream>& stream, int count) {
  int64_t calls = 0;
  const int64_t start = real_clock().now_ns();
  for (int i = 0; i < count; ++i) submit<kGate>(stream, &calls);
  const int64_t end = real_clock().now_ns();
  stream->synchronize();
  if (calls != count) throw Error("gate cost: the stream lost work");
  return static_cast<double>(end - start) / count;
}

}  // namespace

GateCost measure_gate(int count) {
  if (count < 1) throw ArgumentError("measure_gate", "count", "be at least 1", std::to_string(count));
  DeviceState& device = open_device({DeviceKind::cpu, 0});
  auto stream = std::make_shared<driver::Stream>(device.context, 0);
  GateCost cost{1e300, 1e300};
  for (int round = 0; round < kRounds; ++round) {
    cost.gated_ns = std::min(cost.gated_ns, round_ns<true>(stream, count));
    cost.without_ns = std::min(cost.without_ns, round_ns<false>(stream, count));
  }
  return cost;
}

}  // namespace gpukit::runtime
