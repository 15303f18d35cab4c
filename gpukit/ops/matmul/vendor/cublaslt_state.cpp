#include "gpukit/ops/matmul/vendor/cublaslt_state.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"

namespace gpukit::cuda {
namespace {

constexpr size_t kMaxProducts = 1024;
/// Streams beyond them take turns: a block that is let go waits for its stream's work before it is used again.
constexpr size_t kMaxWorkspaces = 8;

struct States {
  std::mutex mutex;
  std::vector<std::pair<const driver::Context*, std::unique_ptr<VendorState>>> list;

  VendorState* find(const driver::Context& context) {
    for (const auto& [owner, state] : list)
      if (owner == &context) return state.get();
    return nullptr;
  }
};

States& states() {
  static States* instance = new States;
  return *instance;
}

}  // namespace

VendorState* VendorState::of(driver::Context& context, std::string* reason) {
  States& all = states();
  std::lock_guard lock(all.mutex);
  if (VendorState* found = all.find(context)) return found;
  if (runtime::thread_capture() != nullptr) {
    *reason = "cuBLASLt was not in use before the graph capture began";
    return nullptr;
  }
  if (const driver::CublasLtLibrary& library = driver::cublaslt(); !library.usable) {
    *reason = library.reason;
    return nullptr;
  }
  context.make_current();
  std::unique_ptr<VendorState> made(new VendorState(context));
  all.list.emplace_back(&context, std::move(made));
  runtime::set_capture_hook(&VendorState::before_capture);
  return all.list.back().second.get();
}

void VendorState::reset() {
  runtime::set_capture_hook(nullptr);
  States& all = states();
  std::lock_guard lock(all.mutex);
  all.list.clear();
}

std::shared_ptr<driver::LtProduct> VendorState::product(const driver::LtProblem& problem) {
  std::lock_guard lock(mutex_);
  if (const auto found = products_.find(problem); found != products_.end()) return found->second;
  context_.make_current();
  std::shared_ptr<driver::LtProduct> made = driver::LtProduct::find(handle_, problem);
  if (products_.size() >= kMaxProducts) products_.clear();
  products_.emplace(problem, made);
  return made;
}

std::shared_ptr<memory::Storage> VendorState::find_or_make(const std::shared_ptr<driver::Stream>& stream,
                                                           bool captured) {
  std::shared_ptr<memory::Storage> dropped;  // goes after the lock
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(workspaces_.begin(), workspaces_.end(), [&](const Workspace& w) {
    return w.stream == stream->id() && w.captured == captured;
  });
  if (found != workspaces_.end()) {
    std::rotate(found, found + 1, workspaces_.end());
    return workspaces_.back().memory;
  }
  if (runtime::thread_capture() != nullptr) return nullptr;
  std::shared_ptr<memory::Storage> made;
  try {
    made = memory::Storage::allocate(*runtime::open_device(stream->device()).resource, kWorkspaceBytes, stream);
  } catch (const OutOfMemoryError&) {
    return nullptr;
  }
  if (workspaces_.size() == kMaxWorkspaces) {
    dropped = std::move(workspaces_.front().memory);
    workspaces_.erase(workspaces_.begin());
  }
  workspaces_.push_back({stream->id(), captured, made});
  return made;
}

std::shared_ptr<memory::Storage> VendorState::workspace(const std::shared_ptr<driver::Stream>& stream) {
  return find_or_make(stream, runtime::thread_capture() != nullptr);
}

void VendorState::before_capture(const std::shared_ptr<driver::Stream>& stream) {
  States& all = states();
  VendorState* state = nullptr;
  {
    std::lock_guard lock(all.mutex);
    state = all.find(stream->context());
  }
  if (state != nullptr) state->find_or_make(stream, true);
}

}  // namespace gpukit::cuda
