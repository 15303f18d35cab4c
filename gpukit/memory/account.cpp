#include "gpukit/memory/account.h"

#include <algorithm>
#include <mutex>

#include "gpukit/base/error.h"
#include "gpukit/base/fork.h"

namespace gpukit::memory {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<Account>> accounts;
};

Registry& registry() {
  static auto* value = new Registry;
  return *value;
}

std::mutex& registry_mutex() { return registry().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<registry_mutex>();

void raise_to(std::atomic<size_t>& peak, size_t value) {
  size_t known = peak.load(std::memory_order_relaxed);
  while (known < value && !peak.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

Account::Account(Key, std::string name, Device device, size_t quota, bool eviction, std::shared_ptr<Account> parent)
    : name_(std::move(name)), device_(device), parent_(std::move(parent)), quota_(quota), eviction_(eviction) {}

Account::~Account() { try_keep(0); }

std::shared_ptr<Account> Account::create(std::string name, Device device, size_t quota, bool eviction,
                                         std::shared_ptr<Account> parent) {
  if (parent != nullptr && !(parent->device() == device))
    throw ArgumentError("Account", "parent", "be of " + str(device), str(parent->device()));
  auto account = std::make_shared<Account>(Key{}, std::move(name), device, quota, eviction, std::move(parent));
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::erase_if(r.accounts, [](const auto& known) { return known.expired(); });
  r.accounts.push_back(account);
  return account;
}

Account* Account::try_charge(size_t bytes) noexcept {
  std::unique_lock lock(keep_mutex_, std::defer_lock);
  if (keeps_.load(std::memory_order_relaxed)) lock.lock();
  size_t charged = charged_.load(std::memory_order_relaxed);
  do {
    const size_t quota = this->quota();
    if (quota != 0 && (charged > quota || bytes > quota - charged)) {
      refusals_.fetch_add(1, std::memory_order_relaxed);
      return this;
    }
  } while (!charged_.compare_exchange_weak(charged, charged + bytes, std::memory_order_relaxed));
  const size_t above = std::max(charged + bytes, kept()) - std::max(charged, kept());
  if (parent_ != nullptr && above != 0) {
    if (Account* wall = parent_->try_charge(above)) {
      charged_.fetch_sub(bytes, std::memory_order_relaxed);
      return wall;
    }
  }
  raise_to(peak_charged_, this->charged());
  return nullptr;
}

void Account::uncharge(size_t bytes) noexcept {
  std::unique_lock lock(keep_mutex_, std::defer_lock);
  if (keeps_.load(std::memory_order_relaxed)) lock.lock();
  const size_t charged = charged_.fetch_sub(bytes, std::memory_order_relaxed);
  const size_t above = std::max(charged, kept()) - std::max(charged - bytes, kept());
  if (parent_ != nullptr && above != 0) parent_->uncharge(above);
}

Account* Account::try_keep(size_t bytes) noexcept {
  std::lock_guard lock(keep_mutex_);
  keeps_.store(true, std::memory_order_relaxed);
  const size_t before = std::max(charged(), kept()), after = std::max(charged(), bytes);
  if (parent_ != nullptr && after > before) {
    if (Account* wall = parent_->try_charge(after - before)) return wall;
  } else if (parent_ != nullptr && after < before) {
    parent_->uncharge(before - after);
  }
  kept_.store(bytes, std::memory_order_relaxed);
  return nullptr;
}

size_t Account::available() const noexcept {
  const size_t quota = this->quota(), charged = this->charged(), kept = this->kept();
  const size_t own = quota == 0 ? SIZE_MAX : charged < quota ? quota - charged : 0;
  if (parent_ == nullptr) return own;
  const size_t above = parent_->available(), spare = charged < kept ? kept - charged : 0;
  return std::min(own, above > SIZE_MAX - spare ? SIZE_MAX : above + spare);
}

bool Account::contains(const Account& other) const noexcept {
  for (const Account* account = &other; account != nullptr; account = account->parent_.get())
    if (account == this) return true;
  return false;
}

AccountStats Account::stats() const {
  AccountStats s;
  s.name = name_;
  s.parent = parent_ != nullptr ? parent_->name_ : "";
  s.device = device_;
  s.eviction = eviction();
  s.quota = quota();
  s.charged_bytes = charged();
  s.peak_charged_bytes = peak_charged_.load(std::memory_order_relaxed);
  s.live_bytes = live_bytes();
  s.peak_live_bytes = peak_live_.load(std::memory_order_relaxed);
  s.cached_bytes = cached_bytes();
  s.evicted_bytes = evicted_bytes();
  s.live_blocks = live_blocks_.load(std::memory_order_relaxed);
  s.cached_blocks = cached_blocks_.load(std::memory_order_relaxed);
  s.evicted_blocks = evicted_blocks_.load(std::memory_order_relaxed);
  s.allocations = allocations_.load(std::memory_order_relaxed);
  s.reuses = reuses_.load(std::memory_order_relaxed);
  s.evictions = evictions_.load(std::memory_order_relaxed);
  s.restores = restores_.load(std::memory_order_relaxed);
  s.refusals = refusals_.load(std::memory_order_relaxed);
  return s;
}

std::vector<std::shared_ptr<Account>> accounts() {
  std::vector<std::shared_ptr<Account>> list;
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (const auto& known : r.accounts)
    if (auto account = known.lock()) list.push_back(std::move(account));
  return list;
}

std::vector<std::shared_ptr<Account>> accounts(Device device) {
  std::vector<std::shared_ptr<Account>> list = accounts();
  std::erase_if(list, [&](const auto& account) { return !(account->device() == device); });
  return list;
}

}  // namespace gpukit::memory
