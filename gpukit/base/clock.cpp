#include "gpukit/base/clock.h"

#include <chrono>
#include <thread>

#include "gpukit/base/files.h"

namespace gpukit {
namespace {

class RealClock final : public Clock {
 public:
  int64_t now_ns() const override { return files::monotonic_ns(); }
  void sleep_ns(int64_t duration) override {
    if (duration > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(duration));
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock* const leaked = new RealClock;
  return *leaked;
}

}  // namespace gpukit
