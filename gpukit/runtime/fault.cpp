#include "gpukit/runtime/fault.h"

#include <array>
#include <atomic>
#include <cstring>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"

namespace gpukit::runtime {

namespace {

/// Names in the order of their first use; entry i has the code i + 1. The last code is shared by all that found no
/// room.
constexpr int32_t kMaxNames = 255;
std::array<std::atomic<const char*>, kMaxNames> names = {};

}  // namespace

int32_t fault_code(const char* op) noexcept {
  for (int32_t i = 0; i < kMaxNames; ++i) {
    std::atomic<const char*>& place = names[static_cast<size_t>(i)];
    const char* known = place.load(std::memory_order_acquire);
    // A lost race leaves the winner's name in `known`.
    if (known == nullptr && place.compare_exchange_strong(known, op)) return i + 1;
    if (known == op || std::strcmp(known, op) == 0) return i + 1;
  }
  return kMaxNames + 1;
}

const char* fault_name(int32_t code) noexcept {
  if (code < 1 || code > kMaxNames) return "index";
  const char* known = names[static_cast<size_t>(code - 1)].load(std::memory_order_acquire);
  return known != nullptr ? known : "index";
}

FaultWord* fault_word(Device device) { return open_device(device).fault; }

driver::Address fault_address(Device device) { return reinterpret_cast<driver::Address>(fault_word(device)); }

void note_fault(FaultWord* word, int32_t op, int64_t index, int64_t limit) {
  int32_t none = 0;
  if (std::atomic_ref<int32_t>(word->op).compare_exchange_strong(none, op)) {
    word->index = index;
    word->limit = limit;
  }
}

void raise_fault(Device device) {
  FaultWord* word = fault_word(device);
  std::atomic_ref<int32_t> op(word->op);
  int32_t code = op.load(std::memory_order_acquire);
  if (code == 0) [[likely]]
    return;
  int64_t index = word->index, limit = word->limit;
  op.store(0, std::memory_order_release);
  throw OutOfRangeError(fault_name(code), index, limit);
}

}  // namespace gpukit::runtime
