// Kernels that another compiler made: machine code and the types of its parameters, launched as our own are.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpukit/jit/arguments.h"
#include "gpukit/jit/module.h"

namespace gpukit::jit {

/// Launches take the current stream, hold and note their arrays and can be captured, as any kernel's.
class BinaryKernel {
 public:
  /// `code` is a cubin, or PTX, with a kernel `name`. `types` are of its parameters in Triton's words: `i32`, `fp32`, a
  /// pointer `*bf16`, one to what is only read `*kbf16`. Throws ArgumentError, UnsupportedError.
  BinaryKernel(std::string name, std::string code, const std::vector<std::string>& types);

  const std::string& name() const { return name_; }
  std::span<const Parameter> parameters() const { return parameters_; }
  /// Loads the code. Throws DeviceError where kernels cannot run, NvrtcError when the driver refuses the code.
  driver::FunctionAttributes attributes(Device device) const;
  void pack(Device device, std::span<const Argument> arguments, const LaunchOptions& options, PackedCall* call) const;
  /// On the device's current stream. options.block and options.grid must be given. Throws what pack_call does.
  void launch(Device device, std::span<const Argument> arguments, const LaunchOptions& options) const;

 private:
  std::string name_;
  std::vector<Parameter> parameters_;
  Module* module_;  // shared by equal code, lives as long as the process
};

/// Throws UnsupportedError for a word that is no type of a parameter.
ParameterType type_of_word(const std::string& kernel, const std::string& word);

/// What every address of an array's first element is a multiple of, as far as 256: a block that moves keeps it.
int64_t address_alignment(const memory::Use& use);

}  // namespace gpukit::jit
