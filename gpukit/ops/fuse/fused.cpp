#include "gpukit/ops/fuse/fused.h"

#include <algorithm>

#include "gpukit/jit/program.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

/// `fused_` and what of a function's name an identifier may have.
std::string identifier(const std::string& name) {
  std::string text = "fused_";
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    text += plain ? c : '_';
  }
  return text;
}

/// What the steps of a kernel are is known where a function was traced with arrays of a GPU.
void check_on_gpu(const FusedGraph& graph, std::span<const Array> arguments) {
  if (arguments[0].device().kind != DeviceKind::cuda)
    throw DeviceError(graph.name + ": has a program on a GPU, not on " + str(arguments[0].device()) +
                      "; make the arrays with device='cuda'");
}

}  // namespace

std::vector<int> FusedGraph::last_uses() const {
  std::vector<int> last(dtypes.size(), -1);
  for (size_t n = 0; n < nodes.size(); ++n)
    for (int i = 0; i < nodes[n].num_inputs; ++i)
      if (nodes[n].inputs[i] >= 0) last[static_cast<size_t>(nodes[n].inputs[i])] = static_cast<int>(n);
  for (int value : results) last[static_cast<size_t>(value)] = static_cast<int>(nodes.size());
  return last;
}

Fused::Fused(const Trace& trace, std::span<const Array> results) {
  graph_.name = identifier(trace.function);
  const std::vector<TraceValue>& values = trace.values();
  std::vector<int> wanted;
  for (const Array& result : results) {
    const int value = trace.value_of(result);
    if (!(result.shape() == values[static_cast<size_t>(value)].shape))
      runtime::fail_trace(trace, "result", "is a broadcast view of a value");
    if (!wanted.empty() && !(result.shape() == graph_.shape))
      runtime::fail_trace(trace, "result",
                          "results have the shapes " + graph_.shape.str() + " and " + result.shape().str() +
                              ", and one kernel writes one shape");
    graph_.shape = result.shape();
    wanted.push_back(value);
  }

  std::vector<bool> needed(values.size(), false);
  for (int value : wanted) needed[static_cast<size_t>(value)] = true;
  for (size_t value = values.size(); value-- > 0;) {
    if (!needed[value] || values[value].node < 0) continue;
    const TraceNode& node = trace.nodes()[static_cast<size_t>(values[value].node)];
    for (int i = 0; i < node.num_inputs; ++i)
      if (node.inputs[i] >= 0) needed[static_cast<size_t>(node.inputs[i])] = true;
  }
  std::vector<int> number(values.size(), -1);
  int argument = 0;
  for (size_t value = 0; value < values.size(); ++value) {
    if (values[value].node >= 0) continue;
    if (needed[value]) {
      number[value] = static_cast<int>(graph_.dtypes.size());
      graph_.leaves.push_back({argument, values[value].dtype});
      graph_.dtypes.push_back(values[value].dtype);
    }
    ++argument;
  }
  for (size_t value = 0; value < values.size(); ++value) {
    if (values[value].node < 0 || !needed[value]) continue;
    TraceNode node = trace.nodes()[static_cast<size_t>(values[value].node)];
    for (int i = 0; i < node.num_inputs; ++i)
      if (node.inputs[i] >= 0) node.inputs[i] = number[static_cast<size_t>(node.inputs[i])];
    number[value] = node.value = static_cast<int>(graph_.dtypes.size());
    graph_.dtypes.push_back(values[value].dtype);
    graph_.nodes.push_back(std::move(node));
  }
  for (int value : wanted) graph_.results.push_back(number[static_cast<size_t>(value)]);
}

std::vector<Array> Fused::leaves_of(std::span<const Array> arguments) const {
  std::vector<Array> leaves;
  for (const FusedGraph::Leaf& leaf : graph_.leaves) leaves.push_back(arguments[static_cast<size_t>(leaf.argument)]);
  return leaves;
}

/// The kernel for a layout.
struct FusedLaunch {
  static const jit::Module& module(const Fused& fused, const cuda::FusedPlan& plan) {
    std::lock_guard lock(fused.mutex_);
    const jit::Module*& slot = fused.variants_[plan.key()];
    if (slot == nullptr)
      slot = &jit::find_program(fused.graph_.name, cuda::fused_source(fused.graph_, plan), jit::builtin_options(),
                                {fused.graph_.name});
    return *slot;
  }
  /// Results as they are made where none are given, without memory.
  static cuda::FusedPlan plan_alone(const Fused& fused, std::span<const Array> arguments) {
    const std::vector<Array> leaves = fused.leaves_of(arguments);
    Trace layouts("fuse", arguments[0].device());
    std::vector<Array> outs;
    for (int value : fused.graph_.results)
      outs.push_back(layouts.make("fuse", fused.graph_.shape, fused.graph_.dtypes[static_cast<size_t>(value)],
                                  arguments[0].device()));
    return cuda::plan_fused(fused.graph_, leaves, outs);
  }
};

std::string Fused::program(std::span<const Array> arguments) const {
  check_on_gpu(graph_, arguments);
  return cuda::fused_source(graph_, FusedLaunch::plan_alone(*this, arguments));
}

size_t Fused::compile(std::span<const Array> arguments, const std::string& arch) const {
  check_on_gpu(graph_, arguments);
  return FusedLaunch::module(*this, FusedLaunch::plan_alone(*this, arguments)).build(arch).code.size();
}

std::vector<Array> Fused::run(std::span<const Array> arguments, std::span<const Array* const> outs) const {
  const std::vector<Array> leaves = leaves_of(arguments);
  const Device device = arguments[0].device();
  for (const Array& leaf : leaves)
    if (!(leaf.device() == device))
      throw DeviceError(graph_.name + ": its arguments are on " + str(device) + " and " + str(leaf.device()) +
                        "; move one with x.to(device)");
  const char* op = graph_.name.c_str();
  std::vector<Array> results, written;
  Temporaries temporaries(op);
  for (size_t i = 0; i < graph_.results.size(); ++i) {
    const DType dtype = graph_.dtypes[static_cast<size_t>(graph_.results[i])];
    const Array* out = outs.empty() ? nullptr : outs[i];
    results.push_back(result(op, out, graph_.shape, dtype, device));
    bool buffered = false;
    for (size_t k = 0; out != nullptr && k < leaves.size(); ++k)
      buffered = buffered || must_buffer(results[i], {&leaves[k]});
    // Two results in one place: the later one stays, as it would if each were copied there.
    for (size_t k = 0; out != nullptr && k < i; ++k) buffered = buffered || may_share_memory(results[i], results[k]);
    written.push_back(buffered ? temporaries.empty(graph_.shape, dtype, device) : results[i]);
  }
  if (graph_.shape.product() == 0) return results;
  switch (device.kind) {
    case DeviceKind::cpu: cpu::run_fused(graph_, leaves, written); break;
    case DeviceKind::cuda: {
      const cuda::FusedPlan plan = cuda::plan_fused(graph_, leaves, written);
      cuda::launch_fused(graph_, plan, FusedLaunch::module(*this, plan).kernels()[0], leaves, written);
      break;
    }
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (written[i].storage() != results[i].storage()) copy_into(results[i], written[i]);
  return results;
}

}  // namespace gpukit
