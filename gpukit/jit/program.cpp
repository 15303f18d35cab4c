#include "gpukit/jit/program.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "gpukit/base/error.h"
#include "gpukit/jit/source.h"
#include "gpukit/jit/user_kernel.h"
#include "gpukit/runtime/session.h"

namespace gpukit::jit {

std::string take_arch(std::vector<std::string>* options) {
  std::string arch;
  for (size_t i = 0; i < options->size();) {
    const std::string& option = (*options)[i];
    size_t used = 0;
    for (std::string_view flag : {"--gpu-architecture", "-arch"}) {
      if (option.compare(0, flag.size(), flag) != 0) continue;
      if (option.size() > flag.size() && (option[flag.size()] == '=' || option[flag.size()] == ' ')) {
        arch = option.substr(flag.size() + 1);
        used = 1;
      } else if (option.size() == flag.size() && i + 1 < options->size()) {
        arch = (*options)[i + 1];
        used = 2;
      }
    }
    if (used == 0) ++i;
    options->erase(options->begin() + static_cast<std::ptrdiff_t>(i),
                   options->begin() + static_cast<std::ptrdiff_t>(i + used));
  }
  return arch;
}

bool reads_other_files(const std::vector<std::string>& options) {
  return std::any_of(options.begin(), options.end(), [](const std::string& option) {
    for (std::string_view flag :
         {"-I", "--include-path", "-include", "--pre-include", "--use-pch", "--create-pch", "-pch", "--pch"})
      if (option.compare(0, flag.size(), flag) == 0) return true;
    return false;
  });
}

Module* shared_module(CompileRequest request, bool on_disk) {
  struct Modules {
    std::mutex mutex;
    std::map<Key, Module*> shared;
    std::vector<Module*> single;
  };
  static auto* modules = new Modules;
  const Key key = key_of(request, {});
  std::lock_guard lock(modules->mutex);
  // A program that reads other files may mean something else next time.
  if (!on_disk) return modules->single.emplace_back(new Module(std::move(request), false));
  Module*& slot = modules->shared[key];
  if (slot == nullptr) slot = new Module(std::move(request), true);
  return slot;
}

void require_kernels(const std::string& name, Device device) {
  // What can be compiled once can be compiled again.
  static std::atomic<bool> available{false};
  if (!available.load(std::memory_order_relaxed)) {
    if (std::string reason = kernels_unavailable_reason(); !reason.empty())
      throw DeviceError(reason + "; kernel " + name + " was not launched");
    available.store(true, std::memory_order_relaxed);
  }
  if (device.kind != DeviceKind::cuda) {
    throw DeviceError(name + ": a CUDA kernel runs on a GPU, not on " + str(device) +
                      "; make the arrays with device='cuda'");
  }
}

const Module& find_program(std::string name, std::string source, std::vector<std::string> options,
                           std::vector<std::string> kernels) {
  CompileRequest request;
  request.file = name + ".cu";
  request.name = std::move(name);
  request.arch = take_arch(&options);
  Closure closure = include_closure(source);
  const bool on_disk = closure.complete && !reads_other_files(options);
  request.source = std::move(source);
  request.files = std::move(closure.files);
  request.options = std::move(options);
  request.expressions = std::move(kernels);
  return *shared_module(std::move(request), on_disk);
}

void launch_values(const Kernel& kernel, Device device, const LaunchConfig& config,
                   std::span<const LaunchValue> values) {
  if (values.size() > kMaxLaunchValues)
    throw UnsupportedError(std::string(kernel.name()) + ": has " + std::to_string(values.size()) +
                           " parameters; at most " + std::to_string(kMaxLaunchValues) + " are supported");
  memory::Use uses[kMaxLaunchValues];
  size_t num_uses = 0;
  for (const LaunchValue& value : values)
    if (value.bytes == nullptr && value.use.storage != nullptr) uses[num_uses++] = value.use;
  const std::span<const memory::Use> used(uses, num_uses);
  const std::shared_ptr<driver::Stream>& stream = runtime::borrow_stream(device);
  runtime::settle(used, *stream);
  const memory::Hold hold(used);
  driver::Address addresses[kMaxLaunchValues];
  void* pointers[kMaxLaunchValues + 1];
  uint32_t sizes[kMaxLaunchValues + 1];
  for (size_t i = 0; i < values.size(); ++i) {
    addresses[i] = values[i].bytes == nullptr ? detail::address_of(values[i].use) : 0;
    pointers[i] = values[i].bytes == nullptr ? static_cast<void*>(&addresses[i]) : const_cast<void*>(values[i].bytes);
    sizes[i] = values[i].size;
  }
  detail::launch_on(stream, kernel, config, pointers, {sizes, values.size()}, used);
}

}  // namespace gpukit::jit
