// Built-in kernels: families declared once, compiled per dtype as one module, found without hashing on a hit.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "gpukit/base/dtype.h"
#include "gpukit/driver/api.h"

namespace gpukit::jit {

class Module;  // module.h

inline constexpr int kMaxDevices = 16;

/// One kernel of one module. Loaded for a device on first use.
class Kernel {
 public:
  const char* name() const { return name_.c_str(); }
  driver::FunctionHandle function(Device device) const {
    driver::FunctionHandle f = functions_[device.index].load(std::memory_order_acquire);
    return f != nullptr ? f : load(device);
  }
  /// Lets launches use `bytes` of dynamic shared memory. The function must be loaded and the context current.
  void allow_shared(Device device, unsigned bytes) const {
    if (bytes > shared_limit_[device.index].load(std::memory_order_relaxed)) raise_shared_limit(device, bytes);
  }
  const Module* module() const { return module_; }

 private:
  friend class Module;
  driver::FunctionHandle load(Device device) const;
  void raise_shared_limit(Device device, unsigned bytes) const;
  std::string name_;  // the name expression, e.g. gpukit::rmsnorm<float>
  Module* module_ = nullptr;
  int index_ = 0;
  mutable std::atomic<driver::FunctionHandle> functions_[kMaxDevices] = {};
  mutable std::atomic<unsigned> shared_limit_[kMaxDevices] = {};  // dynamic bytes known to be allowed
};

/// The kernels of one source file, instantiated for each dtype. One module (one cubin) per dtype.
/// Declare at namespace scope in `*_cuda.cpp`: construction registers the set, so that the bundle and the kernel tests
/// can list every instance; it does no other work.
///   static jit::KernelSet kernels("gpukit/ops/norm/norm.cuh", {"gpukit::rmsnorm<{T}>", "gpukit::layernorm<{T}>"},
///                                 {DType::float16, DType::bfloat16, DType::float32, DType::float64});
///   launch(kernels.get(0, x.dtype()), ...)
/// `{T}` is replaced by kernel_type(dtype). A set with no dtypes is one module; use get(i).
/// `archs` limits a set to some chips, e.g. {"90a"}; empty: every supported chip.
class KernelSet {
 public:
  KernelSet(const char* source, std::vector<std::string> names, std::vector<DType> dtypes = {},
            std::vector<std::string> archs = {});
  const Kernel& get(int kernel, DType dtype) const {
    const Kernel* k = table_[static_cast<int>(dtype)];
    if (k == nullptr) missing(dtype);
    return k[kernel];
  }
  const Kernel& get(int kernel) const { return table_[0][kernel]; }
  bool has(DType dtype) const { return table_[static_cast<int>(dtype)] != nullptr; }
  const std::vector<Module*>& modules() const { return *modules_; }

 private:
  [[noreturn]] void missing(DType dtype) const;
  const Kernel* table_[kNumDTypes] = {};
  std::vector<Module*>* modules_ = new std::vector<Module*>;  // leaked: threads may launch while the process ends
};

/// Every module declared in the process, in a stable order. For the bundle builder, tests, `cache warm`.
const std::vector<Module*>& all_modules();

}  // namespace gpukit::jit
