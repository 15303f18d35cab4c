#include "gpukit/base/metrics.h"

#include <map>
#include <mutex>

#include "gpukit/base/fork.h"

namespace gpukit {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Counter, std::less<>> counters;  // nodes never move
};

Registry& registry() {
  static Registry* const leaked = new Registry;
  return *leaked;
}

std::mutex& registry_mutex() { return registry().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<registry_mutex>();

}  // namespace

Counter& counter(std::string_view name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto found = all.counters.find(name);
  if (found != all.counters.end()) return found->second;
  return all.counters.try_emplace(std::string(name)).first->second;
}

std::string owned_name(std::string_view metric, std::string_view owner) {
  return std::string(metric) + "/" + std::string(owner);
}

int64_t counter_value(std::string_view name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto found = all.counters.find(name);
  return found == all.counters.end() ? 0 : found->second.value();
}

std::vector<std::pair<std::string, int64_t>> metrics() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::pair<std::string, int64_t>> values;
  for (const auto& [name, one] : all.counters) values.emplace_back(name, one.value());
  return values;
}

}  // namespace gpukit
