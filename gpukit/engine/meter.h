// Tokens and time of steps, counted for whoever pays for the memory: a context, a pool.
#pragma once

#include <memory>
#include <vector>

#include "gpukit/base/metrics.h"
#include "gpukit/memory/account.h"

namespace gpukit::engine {

/// Not thread-safe.
class Meter {
 public:
  /// One step, which has computed `tokens` tokens and drawn `drawn` new ones since `begin_ns` of the real clock. Counts
  /// for the current account and every one above it by its name: llm.tokens, llm.drawn_tokens, llm.steps_ns. Without an
  /// account for the device.
  void note(Device device, int64_t begin_ns, int64_t tokens, int64_t drawn);

 private:
  struct Counters {
    Counter *tokens, *drawn, *time_ns;
  };
  std::shared_ptr<memory::Account> account_;
  std::vector<Counters> counters_;  // of account_ and those above
};

}  // namespace gpukit::engine
