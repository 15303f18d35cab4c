#include "gpukit/memory/hold.h"

#include <algorithm>
#include <array>
#include <vector>

#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/residency.h"

namespace gpukit::memory {

constinit std::atomic<int64_t> g_managed_blocks{0};

namespace {

/// The managed storages of a launch, those of one device together and devices always in the same order.
class Managed {
 public:
  explicit Managed(std::span<const Use> uses) {
    if (uses.size() > few_.size()) many_.resize(uses.size());
    Storage** list = many_.empty() ? few_.data() : many_.data();
    for (const Use& use : uses)
      if (use.storage != nullptr && (*use.storage)->managed()) list[count_++] = use.storage->get();
    list_ = {list, count_};
    std::sort(list_.begin(), list_.end(), [](Storage* a, Storage* b) {
      const auto *x = Residency::of(*a), *y = Residency::of(*b);
      return x != y ? std::less<>()(x, y) : std::less<>()(a, b);
    });
  }

  /// Calls function(residency, its storages) for each device.
  template <typename Function>
  void each(Function&& function) const {
    for (size_t begin = 0; begin < count_;) {
      Residency* residency = Residency::of(*list_[begin]);
      size_t end = begin + 1;
      while (end < count_ && Residency::of(*list_[end]) == residency) ++end;
      function(*residency, list_.subspan(begin, end - begin));
      begin = end;
    }
  }

 private:
  std::array<Storage*, 16> few_;
  std::vector<Storage*> many_;
  std::span<Storage*> list_;
  size_t count_ = 0;
};

}  // namespace

void Hold::take() {
  const Managed managed(uses_);
  size_t taken = 0;
  try {
    managed.each([&](Residency& residency, std::span<Storage* const> storages) {
      residency.acquire(storages);
      ++taken;
    });
  } catch (...) {
    managed.each([&](Residency& residency, std::span<Storage* const> storages) {
      if (taken > 0) residency.release(storages), --taken;
    });
    throw;
  }
  taken_ = true;
  for (const Use& use : uses_)
    if (use.write && use.storage != nullptr) melt(**use.storage);
}

void Hold::give() noexcept {
  const Managed managed(uses_);
  managed.each([](Residency& residency, std::span<Storage* const> storages) { residency.release(storages); });
}

}  // namespace gpukit::memory
