#include "gpukit/jit/kernel.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/jit/module.h"
#include "gpukit/runtime/device.h"

namespace gpukit::jit {
namespace {

constexpr unsigned kDefaultSharedBytes = 48 * 1024;

/// Leaked, like the modules in it.
std::vector<Module*>& registry() {
  static auto* modules = new std::vector<Module*>;
  return *modules;
}

std::string with_type(const std::string& pattern, const char* type) {
  std::string text = pattern;
  for (size_t at = text.find("{T}"); at != std::string::npos; at = text.find("{T}", at)) text.replace(at, 3, type);
  return text;
}

}  // namespace

driver::FunctionHandle Kernel::load(Device device) const { return module_->load(device, index_); }

void Kernel::raise_shared_limit(Device device, unsigned bytes) const {
  const driver::Api& api = runtime::open_device(device).context.api();
  const driver::FunctionHandle handle = function(device);
  const unsigned fixed = static_cast<unsigned>(api.attributes(handle).shared_bytes);
  const unsigned granted = fixed < kDefaultSharedBytes ? kDefaultSharedBytes - fixed : 0;
  if (bytes > granted) api.set_max_dynamic_shared(handle, static_cast<int>(bytes));
  shared_limit_[device.index].store(bytes > granted ? bytes : granted, std::memory_order_relaxed);
}

KernelSet::KernelSet(const char* source, std::vector<std::string> names, std::vector<DType> dtypes,
                     std::vector<std::string> archs) {
  static int sets = 0;
  const int number = sets++;
  auto add = [&](std::optional<DType> dtype) {
    std::vector<std::string> expressions;
    for (const std::string& pattern : names) {
      expressions.push_back(dtype ? with_type(pattern, kernel_type(*dtype)) : pattern);
    }
    modules_->push_back(new Module(source, dtype, std::move(expressions), archs));
    modules_->back()->set_number(number);
    registry().push_back(modules_->back());
    return modules_->back()->kernels();
  };
  if (dtypes.empty()) table_[0] = add(std::nullopt);
  for (DType dtype : dtypes) table_[static_cast<int>(dtype)] = add(dtype);
}

void KernelSet::missing(DType dtype) const {
  const std::string source = modules_->empty() ? "kernels" : modules_->front()->source();
  throw UnsupportedError(source + ": no kernels for " + name(dtype));
}

const std::vector<Module*>& all_modules() {
  static const auto* sorted = [] {
    auto* list = new std::vector<Module*>(registry());
    // Static sets register in link order; the source file and the declaration order within it do not depend on that.
    std::stable_sort(list->begin(), list->end(),
                     [](const Module* a, const Module* b) { return a->source() < b->source(); });
    return list;
  }();
  return *sorted;
}

}  // namespace gpukit::jit
