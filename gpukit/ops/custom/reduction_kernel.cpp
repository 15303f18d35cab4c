#include "gpukit/ops/custom/reduction_kernel.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

using namespace custom;

namespace {

constexpr int64_t kSegment = 1024;
constexpr int64_t kMostLanes = 32;
constexpr int kThreads = 256;  // reduction.cuh's kReductionThreads
/// What a value of a type that is not an element's may take: reduction.cuh holds programs to it.
constexpr int64_t kMaxValueBytes = 64;

/// reduction.cuh's ReductionStep.
struct PackedStep {
  int64_t outputs, count, segments, segment_size;
  int32_t log2_lanes, lanes_first;
};

}  // namespace

std::vector<ReductionLevel> reduction_levels(int64_t count) {
  std::vector<ReductionLevel> levels;
  for (;;) {
    const int64_t segments = std::max<int64_t>((count + kSegment - 1) / kSegment, 1);
    const int64_t lanes = std::clamp<int64_t>(count, 1, kMostLanes);
    levels.push_back({count, segments, kSegment, static_cast<int>(std::bit_width(static_cast<uint64_t>(lanes))) - 1});
    if (segments == 1) return levels;
    count = segments;
  }
}

/// What a call needs but its memory.
struct ReductionKernel::Plan {
  Letters letters;
  Dims out_shape, out_kept;  // of the outputs, and of the axes that stay
  std::vector<DType> input_dtypes, output_dtypes;
  std::vector<bool> is_array;
  Space kept, reduced;  // operands: arrays that are not raw, inputs first
  int64_t outputs = 0, count = 0;
  int64_t value_bytes = kMaxValueBytes;
  std::string reduce_type, key;
};

ReductionKernel::ReductionKernel(ReductionText text) : text_(std::move(text)) {
  check_kernel_name("ReductionKernel", text_.name);
  std::vector<std::string> names;
  inputs_ = parse_parameters(text_.name, "in_params", text_.in_params, &names);
  outputs_ = parse_parameters(text_.name, "out_params", text_.out_params, &names);
  if (inputs_.empty()) throw ArgumentError(text_.name, "in_params", "name an input at least", "none");
  if (outputs_.empty()) throw ArgumentError(text_.name, "out_params", "name an output at least", "none");
  for (const Parameter& parameter : outputs_) {
    if (parameter.raw) throw ArgumentError(text_.name, "out_params", "not be raw", "'raw " + parameter.name + "'");
    if (parameter.name == "a")
      throw ArgumentError(text_.name, "out_params", "not be called a, which is the reduced value", "'a'");
  }
  if (std::find(names.begin(), names.end(), text_.name) != names.end())
    throw ArgumentError(text_.name, "name", "differ from the parameters' names", "'" + text_.name + "'");
  const std::pair<const char*, const std::string*> expressions[] = {
      {"map_expr", &text_.map_expr}, {"reduce_expr", &text_.reduce_expr}, {"post_map_expr", &text_.post_map_expr}};
  for (const auto& [argument, expression] : expressions)
    if (expression->find_first_not_of(" \t\r\n") == std::string::npos)
      throw ArgumentError(text_.name, argument, "be an expression", "nothing");
}

ReductionKernel::Plan ReductionKernel::plan(const CallArguments& call, const std::optional<Dims>& axes,
                                            bool keepdims) const {
  if (call.inputs.size() != inputs_.size() || call.outputs.size() != outputs_.size())
    throw ArgumentError(
        text_.name, "arguments",
        "be " + std::to_string(inputs_.size()) + " inputs and at most " + std::to_string(outputs_.size()) + " outputs",
        std::to_string(call.inputs.size()) + " and " + std::to_string(call.outputs.size()));
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].raw && !call.inputs[i].is_array())
      throw ArgumentError(text_.name, inputs_[i].name, "be an array: it is raw", "a number");
  Plan plan{.letters = letters_of(text_.name, inputs_, outputs_, call),
            .out_shape = {},
            .out_kept = {},
            .input_dtypes = {},
            .output_dtypes = {},
            .is_array = {},
            .kept = {},
            .reduced = {},
            .reduce_type = text_.reduce_type,
            .key = {}};
  for (const Parameter& parameter : inputs_) plan.input_dtypes.push_back(plan.letters.of(parameter));
  for (const Parameter& parameter : outputs_) plan.output_dtypes.push_back(plan.letters.of(parameter));
  if (plan.reduce_type.empty()) {
    const DType first = plan.output_dtypes[0];
    const bool narrow = first == DType::float16 || first == DType::bfloat16;
    plan.reduce_type = spelled(narrow ? DType::float32 : first);
    plan.value_bytes = itemsize(narrow ? DType::float32 : first);
  }

  const std::optional<Dims> shape = common_shape(text_.name, inputs_, call.inputs);
  if (!shape) throw ArgumentError(text_.name, "arguments", "have an array that is not raw", "none");
  bool is_reduced[kMaxRank] = {};
  for (int axis = 0; !axes && axis < shape->rank(); ++axis) is_reduced[axis] = true;
  for (int i = 0; axes && i < axes->rank(); ++i) {
    const int axis = normalize_axis(text_.name, (*axes)[i], shape->rank());
    if (is_reduced[axis]) throw ArgumentError(text_.name, "axis", "name each axis once", axes->str());
    is_reduced[axis] = true;
  }
  for (int axis = 0; axis < shape->rank(); ++axis) {
    (is_reduced[axis] ? plan.reduced : plan.kept).shape.push_back((*shape)[axis]);
    if (!is_reduced[axis]) plan.out_kept.push_back((*shape)[axis]);
    if (!is_reduced[axis] || keepdims) plan.out_shape.push_back(is_reduced[axis] ? 1 : (*shape)[axis]);
  }
  plan.outputs = plan.kept.size();
  plan.count = plan.reduced.size();
  if (plan.count == 0 && plan.outputs != 0 && text_.identity.empty())
    throw ArgumentError(text_.name, "identity", "be given to reduce no elements", "none");

  plan.key = plan.letters.key() + "|";
  for (size_t i = 0; i < inputs_.size(); ++i) {
    plan.is_array.push_back(call.inputs[i].is_array());
    plan.key += plan.is_array[i] ? 'a' : 'n';
    if (inputs_[i].raw || !plan.is_array[i]) continue;
    const Dims strides = broadcast_strides(call.inputs[i].array, *shape);
    Dims kept, reduced;
    for (int axis = 0; axis < shape->rank(); ++axis) (is_reduced[axis] ? reduced : kept).push_back(strides[axis]);
    plan.kept.strides.push_back(kept);
    plan.reduced.strides.push_back(reduced);
  }
  return plan;
}

namespace {

/// Adds the outputs, of which nothing is reduced. `strides` are those of the axes that stay.
void finish_spaces(Space& kept, Space& reduced, const std::vector<Dims>& strides, std::string& key) {
  for (const Dims& steps : strides) {
    kept.strides.push_back(steps);
    reduced.strides.push_back(Dims::filled(reduced.shape.rank(), 0));
  }
  kept.merge_axes();
  reduced.merge_axes();
  key += std::to_string(kept.shape.rank()) + std::to_string(reduced.shape.rank());
}

Dims kept_strides(const Array& out, const Dims& kept, bool keepdims, const std::optional<Dims>& axes) {
  if (!keepdims) return out.strides();
  Dims strides;
  bool is_reduced[kMaxRank] = {};
  for (int axis = 0; axis < out.ndim(); ++axis) is_reduced[axis] = !axes;
  for (int i = 0; axes && i < axes->rank(); ++i) is_reduced[normalize_axis("axis", (*axes)[i], out.ndim())] = true;
  for (int axis = 0; axis < out.ndim(); ++axis)
    if (!is_reduced[axis]) strides.push_back(out.strides()[axis]);
  return strides.rank() == kept.rank() ? strides : contiguous_strides(kept);
}

}  // namespace

std::string ReductionKernel::source(const Plan& plan) const {
  const std::string operands = std::to_string(plan.kept.strides.size());
  const std::string loop =
      std::to_string(plan.kept.shape.rank()) + ", " + std::to_string(plan.reduced.shape.rank()) + ", " + operands;
  std::string head_in, head_out, views, elements, places;
  size_t operand = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Parameter& parameter = inputs_[i];
    head_in += declare(parameter, plan.input_dtypes[i], plan.is_array[i], false);
    if (!plan.is_array[i]) continue;
    if (parameter.raw) {
      views += raw_view(parameter, plan.input_dtypes[i], false);
      continue;
    }
    const std::string number = std::to_string(operand++);
    elements += std::string("    const ") + spelled(plan.input_dtypes[i]) + " " + parameter.name + " = _raw_" +
                parameter.name + "[gpukit::custom::offset_of(_loop.kept, " + number +
                ", _output) + gpukit::custom::offset_of(_loop.reduced, " + number + ", _J)];\n";
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Parameter& parameter = outputs_[i];
    head_out += declare(parameter, plan.output_dtypes[i], true, true);
    places += std::string("    ") + spelled(plan.output_dtypes[i]) + "& " + parameter.name + " = _raw_" +
              parameter.name + "[gpukit::custom::offset_of(_loop.kept, " + std::to_string(operand++) + ", _output)];\n";
  }
  const std::string params =
      "const __grid_constant__ gpukit::custom::ReductionLoop<" + loop +
      "> _loop, const __grid_constant__ gpukit::custom::ReductionStep _step, long long _inputs, ";
  const std::string ends =
      "  const gpukit::custom::Extent _in_ind{_inputs}, _out_ind{_step.outputs};\n  (void)_in_ind, (void)_out_ind;\n";
  const std::string finish = "  auto _finish = [&](long long _output, const _type_reduce a) {\n" + places +
                             numbered("post_map_expr", text_.post_map_expr + ";") + "  };\n";
  const std::string call =
      "  auto _empty = [&]() { return " +
      (text_.identity.empty() ? std::string("_type_reduce()") : "static_cast<_type_reduce>(" + text_.identity + ")") +
      "; };\n  gpukit::custom::reduce_items<_type_reduce>(_step, _partials, _map, _reduce, _empty, _finish);\n}\n";

  std::string text = "#include \"gpukit/ops/custom/reduction.cuh\"\n" + plan.letters.typedefs();
  text += numbered("preamble", text_.preamble);
  text += "typedef " + plan.reduce_type + " _type_reduce;\n";
  text +=
      "struct _Reduce {\n  GPUKIT_DEVICE _type_reduce operator()(const _type_reduce a, const _type_reduce b) const {";
  text += numbered("reduce_expr", "return static_cast<_type_reduce>(" + text_.reduce_expr + ");") + "  }\n};\n";
  text += "__global__ void __launch_bounds__(256) " + text_.name + "(" + params + "_type_reduce* _partials" + head_in +
          head_out + ") {\n  const _Reduce _reduce;\n" + ends + views;
  text += "  auto _map = [&](long long _output, long long _J) -> _type_reduce {\n" + elements +
          numbered("map_expr", "return static_cast<_type_reduce>(" + text_.map_expr + ");") + "  };\n" + finish + call;
  text += "__global__ void __launch_bounds__(256) " + text_.name + "_partials(" + params +
          "_type_reduce* _partials, const _type_reduce* _from" + head_out + ") {\n  const _Reduce _reduce;\n" + ends;
  text +=
      "  auto _map = [&](long long _output, long long _J) -> _type_reduce {\n"
      "    return _from[_output * _step.count + _J];\n  };\n" +
      finish + call;
  return text;
}

const jit::Module& ReductionKernel::module(const Plan& plan) const {
  std::lock_guard lock(mutex_);
  const jit::Module*& slot = variants_[plan.key];
  if (slot == nullptr)
    slot = &jit::find_program(text_.name, source(plan), program_options(text_.options),
                              {text_.name, text_.name + "_partials"});
  return *slot;
}

std::string ReductionKernel::program(const CallArguments& call, const std::optional<Dims>& axes, bool keepdims) const {
  Plan made = plan(call, axes, keepdims);
  finish_spaces(made.kept, made.reduced, std::vector<Dims>(outputs_.size(), contiguous_strides(made.out_kept)),
                made.key);
  return source(made);
}

size_t ReductionKernel::compile(const CallArguments& call, const std::optional<Dims>& axes, bool keepdims,
                                const std::string& arch) const {
  Plan made = plan(call, axes, keepdims);
  finish_spaces(made.kept, made.reduced, std::vector<Dims>(outputs_.size(), contiguous_strides(made.out_kept)),
                made.key);
  return module(made).build(arch).code.size();
}

std::vector<Array> ReductionKernel::operator()(const CallArguments& call, const std::optional<Dims>& axes,
                                               bool keepdims) const {
  const Device device = common_device(text_.name, inputs_, outputs_, call);
  jit::require_kernels(text_.name, device);
  Plan made = plan(call, axes, keepdims);
  const char* op = text_.name.c_str();

  std::vector<Array> outputs, written;
  std::vector<Dims> strides;
  Temporaries temporaries(op);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs.push_back(result(op, call.outputs[i], made.out_shape, made.output_dtypes[i], device));
    bool buffered = false;
    for (size_t k = 0; call.outputs[i] != nullptr && k < inputs_.size(); ++k)
      buffered = buffered || (call.inputs[k].is_array() && may_share_memory(outputs[i], *call.inputs[k].array));
    written.push_back(buffered ? temporaries.empty(made.out_shape, made.output_dtypes[i], device) : outputs[i]);
    strides.push_back(kept_strides(written[i], made.out_kept, keepdims, axes));
  }
  const size_t num_inputs = made.kept.strides.size();
  finish_spaces(made.kept, made.reduced, strides, made.key);
  if (made.outputs == 0) return outputs;

  std::vector<int64_t> loop = made.kept.packed();
  const std::vector<int64_t> reduced = made.reduced.packed();
  loop.insert(loop.end(), reduced.begin(), reduced.end());
  // Which neighbours lie closer in the first input: those that are merged, or those that are not.
  const bool lanes_first = num_inputs == 0 ||
                           std::abs(made.reduced.strides[0][made.reduced.shape.rank() - 1]) <=
                               std::abs(made.kept.strides[0][made.kept.shape.rank() - 1]) ||
                           made.outputs == 1;

  std::vector<PackedRaw> layouts;
  layouts.reserve(inputs_.size());
  std::vector<ElementBytes> numbers(inputs_.size());
  std::vector<jit::LaunchValue> inputs, last;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!call.inputs[i].is_array()) {
      numbers[i] = number_of(text_.name, inputs_[i], made.input_dtypes[i], call.inputs[i].scalar);
      inputs.push_back({{}, numbers[i].bytes, static_cast<uint32_t>(itemsize(made.input_dtypes[i]))});
      continue;
    }
    inputs.push_back(jit::LaunchValue::array(read(*call.inputs[i].array)));
    if (inputs_[i].raw) inputs.push_back(jit::LaunchValue::of(layouts.emplace_back(*call.inputs[i].array)));
  }
  for (const Array& out : written) last.push_back(jit::LaunchValue::array(write(out)));

  const jit::Module& program = module(made);
  const int64_t num_elements = made.outputs * made.count;
  Array from;
  for (const ReductionLevel& level : reduction_levels(made.count)) {
    const bool first = !from.defined();
    Array into;
    if (level.segments > 1)
      into =
          temporaries.empty({checked_product(op, checked_product(op, made.outputs, level.segments), made.value_bytes)},
                            DType::uint8, device);
    const PackedStep step = {made.outputs,       level.count,      level.segments,
                             level.segment_size, level.log2_lanes, first ? lanes_first : 1};
    std::vector<jit::LaunchValue> values = {{{}, loop.data(), static_cast<uint32_t>(loop.size() * sizeof(int64_t))},
                                            jit::LaunchValue::of(step),
                                            jit::LaunchValue::of(num_elements),
                                            jit::LaunchValue::array(write_if(into))};
    if (first)
      values.insert(values.end(), inputs.begin(), inputs.end());
    else
      values.push_back(jit::LaunchValue::array(read(from)));
    values.insert(values.end(), last.begin(), last.end());
    const int64_t per_block = kThreads >> level.log2_lanes;
    const int64_t blocks = (made.outputs * level.segments + per_block - 1) / per_block;
    if (blocks > INT32_MAX)
      throw UnsupportedError(text_.name + ": " + std::to_string(made.outputs) +
                             " results need more blocks than a launch has");
    jit::launch_values(program.kernels()[first ? 0 : 1], device,
                       {.grid_x = static_cast<unsigned>(blocks), .block_x = kThreads}, values);
    from = into;
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (written[i].storage() != outputs[i].storage()) copy_into(outputs[i], written[i]);
  return outputs;
}

}  // namespace gpukit
