// Reductions from expressions in CUDA C, compiled at run time for the dtypes and layouts they are called with.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/ops/custom/program.h"

namespace gpukit {

struct ReductionText {
  std::string in_params, out_params;
  std::string map_expr;       // a value of each element: `x * x`
  std::string reduce_expr;    // of two values a and b: `a + b`
  std::string post_map_expr;  // what an output is of the value a: `y = sqrt(a)`
  std::string identity;       // the value without elements; empty: there must be some
  std::string name = "reduce_kernel";
  std::string reduce_type;  // of the values; empty: the first output's, float for 16-bit floats
  std::string preamble;
  std::vector<std::string> options;
  bool reduce_dims = true;  // accepted as the elementwise kernels' one; axes are always merged
};

/// One launch of a reduction: `count` elements of each output in `segments`, one of `lanes` threads each. Pure: from
/// the number of elements alone, so that the order of a sum is the same on every chip and beside any other outputs.
struct ReductionLevel {
  int64_t count, segments, segment_size;
  int log2_lanes;
};
std::vector<ReductionLevel> reduction_levels(int64_t count);

class ReductionKernel {
 public:
  /// Throws ArgumentError, DTypeError for parameters and names that are none. Compiles nothing.
  explicit ReductionKernel(ReductionText text);

  const ReductionText& text() const { return text_; }
  const std::vector<custom::Parameter>& inputs() const { return inputs_; }
  const std::vector<custom::Parameter>& outputs() const { return outputs_; }

  /// Inputs that are not raw broadcast together and are reduced over `axes` (none: all of them). An output that is null
  /// is made. Throws ShapeError, DTypeError, ArgumentError (no elements and no identity), OutOfRangeError, DeviceError
  /// with the cause where kernels cannot run, NvrtcError.
  std::vector<Array> operator()(const custom::CallArguments& call, const std::optional<Dims>& axes,
                                bool keepdims) const;
  /// The program for a call, and its size for a chip (`sm_90`). Launches nothing; arrays may be on any device.
  std::string program(const custom::CallArguments& call, const std::optional<Dims>& axes, bool keepdims) const;
  size_t compile(const custom::CallArguments& call, const std::optional<Dims>& axes, bool keepdims,
                 const std::string& arch) const;

 private:
  struct Plan;
  Plan plan(const custom::CallArguments& call, const std::optional<Dims>& axes, bool keepdims) const;
  std::string source(const Plan& plan) const;
  const jit::Module& module(const Plan& plan) const;

  ReductionText text_;
  std::vector<custom::Parameter> inputs_, outputs_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, const jit::Module*> variants_;
};

}  // namespace gpukit
