// Named counters: every layer may write, the trace and `info` read.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpukit {

class Counter {
 public:
  void add(int64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

/// The counter of this name, made on first use; the reference stays valid. Keep it: the lookup takes a lock.
///   static Counter& hits = counter("jit.cache_hits");
Counter& counter(std::string_view name);
/// The name of a counter that many owners have one of each: `metric/owner`.
std::string owned_name(std::string_view metric, std::string_view owner);
/// 0 when there is no such counter.
int64_t counter_value(std::string_view name);
/// All counters, sorted by name.
std::vector<std::pair<std::string, int64_t>> metrics();

}  // namespace gpukit
