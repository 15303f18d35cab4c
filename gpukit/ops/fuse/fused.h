// A traced function as one pass over its arguments: one kernel on a GPU, blocks that stay in the cache on the CPU. Each
// step is the function that the operation itself runs, rounded to its dtype, so the bits are those of the calls one by
// one.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpukit/jit/module.h"
#include "gpukit/ops/common/trace.h"

namespace gpukit {

/// What is left of a trace once the nodes that no result needs are gone. Values are leaves, then nodes.
struct FusedGraph {
  struct Leaf {
    int argument;  // its place among the function's arrays
    DType dtype;
  };
  std::string name;  // an identifier
  std::vector<Leaf> leaves;
  std::vector<TraceNode> nodes;  // inputs are numbers of values
  std::vector<DType> dtypes;     // of every value
  std::vector<int> results;      // values
  Dims shape;                    // of every result

  int num_leaves() const { return static_cast<int>(leaves.size()); }
  /// The last node that reads each value; the number of nodes where a result does.
  std::vector<int> last_uses() const;
};

class Fused {
 public:
  /// `results` are what the function returned under `trace`. Throws Error for one that is a view, or when they have
  /// several shapes.
  Fused(const Trace& trace, std::span<const Array> results);

  const FusedGraph& graph() const { return graph_; }
  /// `arguments` have the shapes and dtypes that were traced; `outs` is empty or has an array or null for each result.
  /// Throws ShapeError, DTypeError, DeviceError for `outs` that do not fit, UnsupportedError for more than a launch
  /// takes, NvrtcError.
  std::vector<Array> run(std::span<const Array> arguments, std::span<const Array* const> outs) const;
  /// The kernel's program for arguments of these layouts, and its size for a chip (`sm_90`).
  std::string program(std::span<const Array> arguments) const;
  size_t compile(std::span<const Array> arguments, const std::string& arch) const;

 private:
  friend struct FusedLaunch;
  std::vector<Array> leaves_of(std::span<const Array> arguments) const;
  FusedGraph graph_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, const jit::Module*> variants_;
};

namespace cpu {
void run_fused(const FusedGraph& graph, std::span<const Array> leaves, std::span<const Array> outs);
}

namespace cuda {

/// How operands lie on the last axis of the merged loop.
enum class Reach : char { vector = 'v', one = 's', steps = 'g' };

/// Pure but for the alignment of the operands' first elements.
struct FusedPlan {
  Dims shape;                  // merged; the last axis in elements
  std::vector<Dims> strides;   // leaves, then results
  std::vector<Reach> reaches;  // likewise
  int elements = 1;            // of a thread
  bool small = true;           // counts fit 32 bits
  std::string key() const;
};
FusedPlan plan_fused(const FusedGraph& graph, std::span<const Array> leaves, std::span<const Array> outs);
std::string fused_source(const FusedGraph& graph, const FusedPlan& plan);
void launch_fused(const FusedGraph& graph, const FusedPlan& plan, const jit::Kernel& kernel,
                  std::span<const Array> leaves, std::span<const Array> outs);

}  // namespace cuda

}  // namespace gpukit
