// Elementwise kernels from an expression in CUDA C, compiled at run time for the dtypes and layouts they are called
// with.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/ops/custom/program.h"

namespace gpukit {

struct ElementwiseText {
  std::string in_params, out_params;  // `T x, raw float32 y`
  std::string operation;              // `z = x + y[i]`
  std::string name = "kernel";
  std::string preamble;               // before the kernel: functions, macros
  std::string loop_prep, after_loop;  // what a thread does before its first and after its last element
  std::vector<std::string> options;   // for the compiler
  bool reduce_dims = true;            // axes are merged where layouts allow it; _ind.get() then has fewer
};

class ElementwiseKernel {
 public:
  /// Throws ArgumentError, DTypeError for parameters and names that are none. Compiles nothing.
  explicit ElementwiseKernel(ElementwiseText text);

  const ElementwiseText& text() const { return text_; }
  const std::vector<custom::Parameter>& inputs() const { return inputs_; }
  const std::vector<custom::Parameter>& outputs() const { return outputs_; }

  /// Inputs that are not raw broadcast together; an output that is null is made, with the dtype of its parameter. With
  /// raw arrays only, options.size says how many elements there are. Outputs that overlap an input in another layout
  /// are written through a temporary; raw ones are the caller's to keep apart.
  /// Throws ShapeError, DTypeError, ArgumentError, DeviceError with the cause where kernels cannot run, NvrtcError.
  std::vector<Array> operator()(const custom::CallArguments& call, const custom::CallOptions& options) const;
  /// The program for a call, and its kernel's size for a chip (`sm_90`). Launches nothing; arrays may be on any device.
  std::string program(const custom::CallArguments& call, const custom::CallOptions& options) const;
  size_t compile(const custom::CallArguments& call, const custom::CallOptions& options, const std::string& arch) const;

 private:
  struct Plan;
  void check(const custom::CallArguments& call, const custom::CallOptions& options) const;
  Plan plan(const custom::CallArguments& call, const custom::CallOptions& options) const;
  std::string source(const Plan& plan) const;
  const jit::Module& module(const Plan& plan) const;

  ElementwiseText text_;
  std::vector<custom::Parameter> inputs_, outputs_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, const jit::Module*> variants_;
};

}  // namespace gpukit
