#include "gpukit/runtime/fault.h"

#include <atomic>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"

namespace gpukit::runtime {

namespace {

const char* op_name(int32_t op) {
  switch (static_cast<FaultOp>(op)) {
    case FaultOp::take: return "take";
    case FaultOp::gather: return "gather";
    case FaultOp::scatter: return "scatter";
    case FaultOp::index_get: return "getitem";
    case FaultOp::index_set: return "setitem";
    case FaultOp::grouped_matmul: return "grouped_matmul";
    case FaultOp::none: break;
  }
  return "index";
}

}  // namespace

FaultWord* fault_word(Device device) { return open_device(device).fault; }

driver::Address fault_address(Device device) { return reinterpret_cast<driver::Address>(fault_word(device)); }

void note_fault(FaultWord* word, FaultOp op, int64_t index, int64_t limit) {
  int32_t none = 0;
  if (std::atomic_ref<int32_t>(word->op).compare_exchange_strong(none, static_cast<int32_t>(op))) {
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
  throw OutOfRangeError(op_name(code), index, limit);
}

}  // namespace gpukit::runtime
