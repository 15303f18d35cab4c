#include <algorithm>
#include <bit>
#include <set>

#include "gpukit/jit/program.h"
#include "gpukit/ops/custom/program.h"
#include "gpukit/ops/fuse/fused.h"

namespace gpukit::cuda {

namespace {

constexpr int kThreads = 256;
constexpr size_t kMaxParameterBytes = 4096;
/// Steps that one thread's code holds: long functions compute fewer elements side by side.
constexpr int kMostSteps = 128;

/// Bytes from the start of a block at a multiple of 256; foreign ones start where they do.
uint64_t start_of(const Array& array) {
  const memory::Storage& storage = *array.storage();
  return (storage.foreign() ? storage.address() : 0) + static_cast<uint64_t>(array.offset_bytes());
}

bool starts_at(const Array& array, const Dims& strides, int elements) {
  if (start_of(array) % static_cast<uint64_t>(elements * itemsize(array.dtype())) != 0) return false;
  for (int axis = 0; axis + 1 < strides.rank(); ++axis)
    if (strides[axis] % elements != 0) return false;
  return true;
}

}  // namespace

std::string FusedPlan::key() const {
  std::string text = std::to_string(shape.rank()) + ',' + std::to_string(elements) + (small ? 's' : 'l');
  for (Reach reach : reaches) text += static_cast<char>(reach);
  return text;
}

FusedPlan plan_fused(const FusedGraph& graph, std::span<const Array> leaves, std::span<const Array> outs) {
  custom::Space space;
  space.shape = graph.shape;
  int widest = 1;
  std::vector<const Array*> operands;
  for (const Array& leaf : leaves) operands.push_back(&leaf);
  for (const Array& out : outs) operands.push_back(&out);
  for (const Array* operand : operands) {
    space.strides.push_back(custom::broadcast_strides(operand, graph.shape));
    widest = std::max(widest, itemsize(operand->dtype()));
  }
  space.merge_axes();

  FusedPlan plan;
  const int x = space.shape.rank() - 1;
  int elements = std::min(16 / widest, static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max<size_t>(
                                           kMostSteps / std::max<size_t>(graph.nodes.size(), 1), 1)))));
  if (x > 0 && space.shape[x] % elements != 0) elements = 1;
  bool any_vector = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    Reach reach = Reach::steps;
    if (space.strides[i][x] == 0)
      reach = Reach::one;
    else if (space.strides[i][x] == 1 && starts_at(*operands[i], space.strides[i], elements))
      reach = Reach::vector;
    any_vector = any_vector || reach == Reach::vector;
    plan.reaches.push_back(reach);
  }
  plan.elements = any_vector ? elements : 1;
  plan.shape = space.shape;
  plan.strides = std::move(space.strides);
  plan.small = graph.shape.product() <= INT32_MAX;
  return plan;
}

std::string fused_source(const FusedGraph& graph, const FusedPlan& plan) {
  const std::string rank = std::to_string(plan.shape.rank()), operands = std::to_string(plan.strides.size()),
                    elements = std::to_string(plan.elements), count = plan.small ? "unsigned" : "long long";
  const int leaves = graph.num_leaves();
  auto number = [](int i) { return std::to_string(i); };
  auto type = [&](int value) { return std::string(kernel_type(graph.dtypes[static_cast<size_t>(value)])); };

  std::set<std::string> sources = {"gpukit/ops/fuse/fuse.cuh"};
  int num_args = 0;
  std::string chain_head, body;
  for (int i = 0; i < leaves; ++i) chain_head += ", const " + type(i) + " v" + number(i);
  for (const TraceNode& node : graph.nodes) {
    sources.insert(node.source);
    const std::string args = node.reads_args ? "args.node[" + number(num_args++) + "]" : "none";
    const std::string functor = "F" + number(node.value);
    body += "  using " + functor + " = " + node.functor + ";\n  const " + type(node.value) + " v" + number(node.value) +
            " = gpukit::bits_as<" + type(node.value) + ">(" + functor + "::apply(";
    constexpr const char* kSlots[] = {"A", "B", "C"};
    for (int i = 0; i < node.num_inputs; ++i) {
      const std::string wanted = functor + "::" + kSlots[i];
      body += node.inputs[i] >= 0 ? "gpukit::bits_as<" + wanted + ">(v" + number(node.inputs[i]) + "), "
                                  : "gpukit::scalar_of<" + wanted + ">(" + args + ", " + number(i) + "), ";
    }
    body += args + "));\n";
  }
  std::string results;
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const std::string r = std::to_string(i);
    chain_head += ", " + type(graph.results[i]) + "& r" + r;
    results += "  r" + r + " = v" + number(graph.results[i]) + ";\n";
  }

  std::string text;
  for (const std::string& source : sources) text += "#include \"" + source + "\"\n";
  text += "struct FusedArgs {\n  gpukit::MapArgs node[" + number(std::max(num_args, 1)) + "];\n};\n";
  text += "GPUKIT_DEVICE void chain(const FusedArgs& args" + chain_head +
          ") {\n  const gpukit::MapArgs none = {};\n  (void)none;\n" + body + results + "}\n";

  std::string head, loads, stores, call;
  for (size_t i = 0; i < plan.reaches.size(); ++i) {
    const bool is_leaf = static_cast<int>(i) < leaves;
    const std::string n = std::to_string(i), p = "p" + n, x = "x" + n;
    const std::string t = type(is_leaf ? static_cast<int>(i) : graph.results[i - static_cast<size_t>(leaves)]);
    head += std::string(", ") + (is_leaf ? "const " : "") + t + "* p" + n;
    const std::string vec = "gpukit::Vec<" + t + ", " + elements + ">";
    const std::string at = p + " + place.offset(loop, " + n + ")";
    const std::string steps = "loop.strides[" + n + "][" + number(plan.shape.rank() - 1) + "], count";
    const bool vector = plan.reaches[i] == Reach::vector;
    if (is_leaf && plan.reaches[i] == Reach::one) {
      loads += "  const " + t + " " + x + " = *(" + at + ");\n";
      call += ", " + x;
      continue;
    }
    call += ", " + x + ".v[i]";
    if (is_leaf) {
      const std::string load_steps = "gpukit::load_steps<" + t + ", " + elements + ">(" + at + ", " + steps + ")";
      loads +=
          "  const " + vec + " " + x + " = " +
          (vector ? "whole ? gpukit::load_vec<" + t + ", " + elements + ">(" + at + ") : " + load_steps : load_steps) +
          ";\n";
    } else {
      loads += "  " + vec + " " + x + ";\n";
      const std::string store_steps =
          "gpukit::store_steps<" + t + ", " + elements + ">(" + at + ", " + x + ", " + steps + ");\n";
      stores += vector ? "  if (whole)\n    gpukit::store_vec<" + t + ", " + elements + ">(" + at + ", " + x +
                             ");\n  else\n    " + store_steps
                       : "  " + store_steps;
    }
  }
  text += "__global__ void __launch_bounds__(256) " + graph.name + "(const __grid_constant__ gpukit::FusedLoop<" +
          rank + ", " + operands + "> loop, const __grid_constant__ FusedArgs args" + head + ") {\n";
  text += "  const " + count + " pack = static_cast<" + count +
          ">(blockIdx.x) * 256 + threadIdx.x;\n"
          "  if (pack >= loop.packs) return;\n";
  text += "  const gpukit::FusedPlace<" + rank + ", " + operands + ", " + elements + ", " + count +
          "> place(loop, pack);\n";
  text += "  const long long left = loop.size - place.at[" + number(plan.shape.rank() - 1) + "];\n" +
          "  const int count = left < " + elements + " ? static_cast<int>(left) : " + elements +
          ";\n  const bool whole = count == " + elements + ";\n  (void)whole;\n";
  text += loads + "#pragma unroll\n  for (int i = 0; i < " + elements + "; ++i) chain(args" + call + ");\n" + stores +
          "}\n";
  return text;
}

void launch_fused(const FusedGraph& graph, const FusedPlan& plan, const jit::Kernel& kernel,
                  std::span<const Array> leaves, std::span<const Array> outs) {
  const int x = plan.shape.rank() - 1;
  std::vector<int64_t> loop = {plan.shape[x], 0};
  int64_t packs = 1;
  for (int axis = 0; axis <= x; ++axis) {
    loop.push_back(axis == x ? (plan.shape[x] + plan.elements - 1) / plan.elements : plan.shape[axis]);
    packs *= loop.back();
  }
  loop[1] = packs;
  for (const Dims& steps : plan.strides) loop.insert(loop.end(), steps.begin(), steps.end());
  std::vector<MapArgs> args;
  for (const TraceNode& node : graph.nodes)
    if (node.reads_args) args.push_back(node.args);
  if (args.empty()) args.emplace_back();

  std::vector<jit::LaunchValue> values = {{{}, loop.data(), static_cast<uint32_t>(loop.size() * sizeof(int64_t))},
                                          {{}, args.data(), static_cast<uint32_t>(args.size() * sizeof(MapArgs))}};
  for (const Array& leaf : leaves) values.push_back(jit::LaunchValue::array(read(leaf)));
  for (const Array& out : outs) values.push_back(jit::LaunchValue::array(write(out)));
  size_t bytes = 0;
  for (const jit::LaunchValue& value : values) bytes += (value.size + 15) / 16 * 16;
  if (bytes > kMaxParameterBytes || values.size() > jit::kMaxLaunchValues)
    throw UnsupportedError(graph.name + ": " + std::to_string(leaves.size() + outs.size()) + " arrays and " +
                           std::to_string(args.size()) + " numbers are more than one kernel takes; fuse it in parts");
  jit::launch_values(kernel, outs[0].device(),
                     {.grid_x = static_cast<unsigned>((packs + kThreads - 1) / kThreads), .block_x = kThreads}, values);
}

}  // namespace gpukit::cuda
