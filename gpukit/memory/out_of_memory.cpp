// What a request that could not be served says.
#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

constexpr size_t kOwners = 5;

/// What an account held at one moment: other threads go on, and a sort needs numbers that stay.
struct Owner {
  explicit Owner(const Account& account)
      : name(account.name()),
        live(account.live_bytes()),
        cached(account.cached_bytes()),
        evicted(account.evicted_bytes()) {}
  std::string name;
  size_t live, cached, evicted;
};

std::string owners_of(const std::vector<std::shared_ptr<Account>>& accounts) {
  std::vector<Owner> list;
  for (const auto& account : accounts) list.emplace_back(*account);
  std::erase_if(list, [](const Owner& owner) { return owner.live + owner.cached == 0; });
  std::stable_sort(list.begin(), list.end(),
                   [](const Owner& a, const Owner& b) { return a.live + a.cached > b.live + b.cached; });
  std::string text;
  for (size_t i = 0; i < std::min(list.size(), kOwners); ++i) {
    const Owner& owner = list[i];
    text += (text.empty() ? "" : ", ") + owner.name + " " + std::to_string(owner.live) + " live + " +
            std::to_string(owner.cached) + " cached";
    if (owner.evicted != 0) text += " + " + std::to_string(owner.evicted) + " evicted";
  }
  return text.empty() ? "none" : text;
}

}  // namespace

void PoolState::out_of_memory(const Request& request, const Account* wall, const char* tried) {
  size_t largest = 0;
  std::vector<AccountPtr> owners;
  ResourceStats stats = this->stats();
  {
    std::lock_guard lock(mutex_);
    for (const Range* range : free_ranges_) largest = std::max(largest, range->bytes);
    for (const Loose& loose : loose_) largest = std::max(largest, loose.pages.bytes);
    for (const auto& [key, lane] : lanes_) {
      if (!lane->large.empty()) largest = std::max(largest, lane->large.back()->bytes);
      if (std::find(owners.begin(), owners.end(), lane->account) == owners.end()) owners.push_back(lane->account);
    }
  }
  std::string text = str(context.device()) + ": out of memory: asked " + std::to_string(request.bytes) + " bytes for " +
                     request.account->name() + "; ";
  auto limit = static_cast<int64_t>(0);
  if (wall != nullptr) {
    limit = static_cast<int64_t>(wall->quota());
    text += "quota of " + wall->name() + " is " + std::to_string(limit) + ", charged " +
            std::to_string(wall->charged()) + "; ";
  } else {
    size_t free_bytes = 0, total_bytes = 0;
    try {
      context.api().memory_info(&free_bytes, &total_bytes);
    } catch (...) {
      // The text does without.
    }
    limit = static_cast<int64_t>(total_bytes);
    text += std::to_string(free_bytes) + " of " + std::to_string(total_bytes) + " free on the device; ";
  }
  text += std::to_string(stats.live_bytes) + " in use in " + std::to_string(stats.live_blocks) + " blocks, " +
          std::to_string(stats.cached_bytes) + " cached, largest free " + std::to_string(largest) +
          "; owners: " + owners_of(owners) + "; tried " + tried;
  if (stats.evicted_bytes != 0 || stats.evictions != 0)
    text += " (" + std::to_string(stats.evicted_bytes) + " bytes lie in host memory, " +
            std::to_string(stats.host_bytes) + " of " + std::to_string(stats.host_limit) + " page-locked)";
  note_event("memory", "refuse", request.account->name(), static_cast<int64_t>(request.bytes), text);
  const int64_t used = wall != nullptr ? static_cast<int64_t>(wall->charged()) : stats.live_bytes;
  throw OutOfMemoryError(text, static_cast<int64_t>(request.bytes), used, limit);
}

}  // namespace gpukit::memory
