#include "gpukit/ops/matmul/vendor/cublaslt_state.h"

#include <vector>

#include "gpukit/memory/fence.h"

namespace gpukit::cuda {
namespace {

constexpr size_t kMaxProducts = 1024;

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
  if (const driver::CublasLtLibrary& library = driver::cublaslt(); !library.usable) {
    *reason = library.reason;
    return nullptr;
  }
  // The library's own set-up may do what a capture of this thread forbids.
  const memory::RelaxedCapture relaxed(context);
  std::unique_ptr<VendorState> made(new VendorState(context));
  all.list.emplace_back(&context, std::move(made));
  return all.list.back().second.get();
}

void VendorState::reset() {
  States& all = states();
  std::lock_guard lock(all.mutex);
  all.list.clear();
}

std::shared_ptr<driver::LtProduct> VendorState::product(const driver::LtProblem& problem) {
  std::lock_guard lock(mutex_);
  if (const auto found = products_.find(problem); found != products_.end()) return found->second;
  const memory::RelaxedCapture relaxed(context_);
  std::shared_ptr<driver::LtProduct> made = driver::LtProduct::find(handle_, problem);
  if (products_.size() >= kMaxProducts) products_.clear();
  products_.emplace(problem, made);
  return made;
}

}  // namespace gpukit::cuda
