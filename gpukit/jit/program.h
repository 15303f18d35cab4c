// Programs of kernels that are written at run time: equal ones are compiled once, in memory and on disk, and launched
// with a list of values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/jit/module.h"

namespace gpukit::jit {

/// The process's module of a program; equal requests share it. See Module for why none is ever unloaded.
Module* shared_module(CompileRequest request, bool on_disk);

/// Takes the target out of the options: `-arch=sm_90`, `--gpu-architecture sm_90`, `-arch`, `sm_90`.
std::string take_arch(std::vector<std::string>* options);
/// Options that let files outside the key into the program: it may mean something else next time.
bool reads_other_files(const std::vector<std::string>& options);

/// Throws DeviceError with the cause where the kernel `name` cannot be compiled and launched, or `device` is no GPU.
void require_kernels(const std::string& name, Device device);

/// `kernels` are the names of the program's kernels, in the order of the module's. Options are the compiler's own.
/// Compiles nothing.
const Module& find_program(std::string name, std::string source, std::vector<std::string> options,
                           std::vector<std::string> kernels);

/// One parameter of a launch: an array, or the bytes of anything else.
struct LaunchValue {
  memory::Use use;
  const void* bytes = nullptr;  // null: the use
  uint32_t size = 0;

  static LaunchValue array(const memory::Use& use) { return {use, nullptr, sizeof(driver::Address)}; }
  template <typename T>
  static LaunchValue of(const T& value) {
    return {{}, &value, sizeof(T)};
  }
};
inline constexpr size_t kMaxLaunchValues = 64;

/// launch() for a list known at run time only.
void launch_values(const Kernel& kernel, Device device, const LaunchConfig& config,
                   std::span<const LaunchValue> values);

}  // namespace gpukit::jit
