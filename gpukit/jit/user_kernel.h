// Kernels from a user's own CUDA source: compiled by NVRTC, called with arrays and numbers.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpukit/jit/arguments.h"
#include "gpukit/jit/module.h"
#include "gpukit/jit/signature.h"
#include "gpukit/scheduler/dispatch/slicing.h"

namespace gpukit::jit {

/// Why no kernel can be compiled and launched here, starting with one of the promised messages; empty when one can.
std::string kernels_unavailable_reason();

class UserKernel {
 public:
  /// Checks what the text allows: ArgumentError `Function 'f' not found ...`. Compiles nothing.
  UserKernel(std::string source, std::string function, std::vector<std::string> options, int64_t block_size);

  const std::string& source() const { return source_; }
  const std::string& name() const { return function_; }
  const std::vector<std::string>& options() const { return options_; }
  int64_t block_size() const { return block_size_; }

  /// Compiles for `arch` (`sm_90`; a target among the options wins) and reads the signature. Throws NvrtcError.
  Image compile(const std::string& arch);
  /// Compiles and loads for a device. Throws DeviceError with the true cause where kernels cannot run, NvrtcError.
  void prepare(Device device) {
    if (!ready(device)) prepare_slow(device);
  }
  bool ready(Device device) const {
    return device.kind == DeviceKind::cuda && ready_[device.index].load(std::memory_order_acquire);
  }
  /// Some device has the code, or compile() was called.
  bool compiled() const { return compiled_.load(std::memory_order_acquire); }
  /// Valid once compiled() is true.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::string ptx() const;
  std::string log() const;
  const Kernel& kernel() const { return module_->kernels()[0]; }
  /// Threads per block that fill the device best. The kernel must be prepared.
  int suggested_block_size(Device device, size_t shared_bytes);

  /// Checks and packs one argument per parameter; the kernel must be compiled. See pack_call, item_range.
  void pack(Device device, std::span<const Argument> arguments, const LaunchOptions& options, PackedCall* call) const;
  /// Packs and launches on `device`, which must be prepared: whole, or with options.slice_ms in slices, if the kernel
  /// declares its items. Throws what pack does, and CudaError.
  void launch(Device device, std::span<const Argument> arguments, const LaunchOptions& options) const;

 private:
  void prepare_slow(Device device);
  void adopt(const Image& image);
  void launch_whole(Device device, std::span<const Argument> arguments, const LaunchOptions& options) const;

  std::string source_, function_;
  std::vector<std::string> options_;
  int64_t block_size_;
  Signature signature_;
  Module* module_;  // shared with equal kernels, lives as long as the process
  mutable std::mutex mutex_;
  std::atomic<bool> compiled_{false};
  std::atomic<bool> ready_[kMaxDevices] = {};
  std::vector<Parameter> parameters_;
  std::string ptx_, log_;
  mutable scheduler::SliceRate slice_rates_[kMaxDevices];
};

}  // namespace gpukit::jit
