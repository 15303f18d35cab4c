#include "gpukit/ops/custom/elementwise_kernel.h"

#include <algorithm>

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

using namespace custom;

namespace {

constexpr int64_t kMaxGrid = (int64_t{1} << 31) - 1;
/// What a kernel's parameters may take together.
constexpr size_t kMaxParameterBytes = 4096;

}  // namespace

/// What a call needs but its memory.
struct ElementwiseKernel::Plan {
  Letters letters;
  Dims shape;
  std::vector<DType> input_dtypes, output_dtypes;
  std::vector<bool> is_array;  // inputs
  Space space;                 // operands: arrays that are not raw, inputs first
  std::string key;
};

ElementwiseKernel::ElementwiseKernel(ElementwiseText text) : text_(std::move(text)) {
  check_kernel_name("ElementwiseKernel", text_.name);
  std::vector<std::string> names;
  inputs_ = parse_parameters(text_.name, "in_params", text_.in_params, &names);
  outputs_ = parse_parameters(text_.name, "out_params", text_.out_params, &names);
  if (outputs_.empty()) throw ArgumentError(text_.name, "out_params", "name an output at least", "none");
  if (std::find(names.begin(), names.end(), text_.name) != names.end())
    throw ArgumentError(text_.name, "name", "differ from the parameters' names", "'" + text_.name + "'");
}

void ElementwiseKernel::check(const CallArguments& call, const CallOptions& options) const {
  if (call.inputs.size() != inputs_.size() || call.outputs.size() != outputs_.size())
    throw ArgumentError(
        text_.name, "arguments",
        "be " + std::to_string(inputs_.size()) + " inputs and at most " + std::to_string(outputs_.size()) + " outputs",
        std::to_string(call.inputs.size()) + " and " + std::to_string(call.outputs.size()));
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].raw && !call.inputs[i].is_array())
      throw ArgumentError(text_.name, inputs_[i].name, "be an array: it is raw", "a number");
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].raw && call.outputs[i] == nullptr)
      throw ArgumentError(text_.name, outputs_[i].name, "be given: a raw output has no shape to be made of", "none");
  if (options.block_size < 1 || options.block_size > 1024)
    throw ArgumentError(text_.name, "block_size", "be 1 to 1024", std::to_string(options.block_size));
  if (options.size && *options.size < 0)
    throw ArgumentError(text_.name, "size", "be 0 or more", std::to_string(*options.size));
}

ElementwiseKernel::Plan ElementwiseKernel::plan(const CallArguments& call, const CallOptions& options) const {
  check(call, options);
  Plan plan{.letters = letters_of(text_.name, inputs_, outputs_, call),
            .shape = {},
            .input_dtypes = {},
            .output_dtypes = {},
            .is_array = {},
            .space = {},
            .key = {}};
  for (const Parameter& parameter : inputs_) plan.input_dtypes.push_back(plan.letters.of(parameter));
  for (const Parameter& parameter : outputs_) plan.output_dtypes.push_back(plan.letters.of(parameter));

  std::optional<Dims> shape = common_shape(text_.name, inputs_, call.inputs);
  if (shape && options.size)
    throw ArgumentError(text_.name, "size", "be given only where every array is raw", std::to_string(*options.size));
  for (size_t i = 0; !shape && i < outputs_.size(); ++i)
    if (!outputs_[i].raw && call.outputs[i] != nullptr) shape = call.outputs[i]->shape();
  if (!shape && options.size) shape = Dims{*options.size};
  const bool any_raw = std::any_of(inputs_.begin(), inputs_.end(), [](const Parameter& p) { return p.raw; }) ||
                       std::any_of(outputs_.begin(), outputs_.end(), [](const Parameter& p) { return p.raw; });
  if (!shape && any_raw) throw ArgumentError(text_.name, "size", "be given where every array is raw", "none");
  plan.shape = shape.value_or(Dims{});

  plan.space.shape = plan.shape;
  plan.key = plan.letters.key() + "|";
  for (size_t i = 0; i < inputs_.size(); ++i) {
    plan.is_array.push_back(call.inputs[i].is_array());
    plan.key += plan.is_array[i] ? 'a' : 'n';
    if (!inputs_[i].raw && plan.is_array[i])
      plan.space.strides.push_back(broadcast_strides(call.inputs[i].array, plan.shape));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].raw) continue;
    const Array* out = call.outputs[i];
    plan.space.strides.push_back(out != nullptr && out->shape() == plan.shape ? out->strides()
                                                                              : contiguous_strides(plan.shape));
  }
  return plan;
}

namespace {

/// The last word on the space, once every output's layout is known.
void finish_space(Space& space, bool merge, std::string& key) {
  if (merge)
    space.merge_axes();
  else if (space.shape.empty()) {
    space.shape = {1};
    for (Dims& steps : space.strides) steps = {0};
  }
  key += std::to_string(space.shape.rank());
  key += space.size() <= INT32_MAX ? 's' : 'l';
}

}  // namespace

std::string ElementwiseKernel::source(const Plan& plan) const {
  const std::string loop =
      std::to_string(plan.space.shape.rank()) + ", " + std::to_string(std::max<size_t>(plan.space.strides.size(), 1));
  std::string head, views, places;
  size_t operand = 0;
  auto add = [&](const Parameter& parameter, DType dtype, bool is_array, bool is_output) {
    head += declare(parameter, dtype, is_array, is_output);
    if (!is_array) return;
    if (parameter.raw) {
      views += raw_view(parameter, dtype, is_output);
      return;
    }
    places += std::string("    ") + (is_output ? "" : "const ") + spelled(dtype) + (is_output ? "& " : " ") +
              parameter.name + " = _raw_" + parameter.name + "[_ind.offset(" + std::to_string(operand++) + ")];\n";
  };
  for (size_t i = 0; i < inputs_.size(); ++i) add(inputs_[i], plan.input_dtypes[i], plan.is_array[i], false);
  for (size_t i = 0; i < outputs_.size(); ++i) add(outputs_[i], plan.output_dtypes[i], true, true);

  std::string text = "#include \"gpukit/ops/custom/custom.cuh\"\n" + plan.letters.typedefs();
  text += numbered("preamble", text_.preamble);
  text += "__global__ void " + text_.name + "(const __grid_constant__ gpukit::custom::Loop<" + loop + "> _loop" + head +
          ") {\n" + views;
  text += "  gpukit::custom::Index<" + loop + ", " + (plan.space.size() <= INT32_MAX ? "true" : "false") +
          "> _ind(_loop);\n";
  text += numbered("loop_prep", text_.loop_prep + ";");
  text +=
      "  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < _loop.size;\n"
      "       i += static_cast<long long>(gridDim.x) * blockDim.x) {\n    _ind.set(i);\n" +
      places;
  text += numbered("operation", text_.operation + ";");
  text += "  }\n" + numbered("after_loop", text_.after_loop + ";") + "}\n";
  return text;
}

const jit::Module& ElementwiseKernel::module(const Plan& plan) const {
  std::lock_guard lock(mutex_);
  const jit::Module*& slot = variants_[plan.key];
  if (slot == nullptr)
    slot = &jit::find_program(text_.name, source(plan), program_options(text_.options), {text_.name});
  return *slot;
}

std::string ElementwiseKernel::program(const CallArguments& call, const CallOptions& options) const {
  Plan made = plan(call, options);
  finish_space(made.space, text_.reduce_dims, made.key);
  return source(made);
}

size_t ElementwiseKernel::compile(const CallArguments& call, const CallOptions& options,
                                  const std::string& arch) const {
  Plan made = plan(call, options);
  finish_space(made.space, text_.reduce_dims, made.key);
  return module(made).build(arch).code.size();
}

std::vector<Array> ElementwiseKernel::operator()(const CallArguments& call, const CallOptions& options) const {
  check(call, options);
  const Device device = common_device(text_.name, inputs_, outputs_, call);
  jit::require_kernels(text_.name, device);
  Plan made = plan(call, options);
  const char* op = text_.name.c_str();

  // Outputs, and what stands in for those that overlap an input.
  std::vector<Array> outputs, written;
  Temporaries temporaries(op);
  size_t operand = made.space.strides.size();
  for (const Parameter& parameter : outputs_) operand -= parameter.raw ? 0 : 1;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].raw) {
      outputs.push_back(*call.outputs[i]);
      written.push_back(outputs.back());
      continue;
    }
    outputs.push_back(result(op, call.outputs[i], made.shape, made.output_dtypes[i], device));
    bool buffered = false;
    for (size_t k = 0; call.outputs[i] != nullptr && k < inputs_.size(); ++k)
      buffered =
          buffered || (!inputs_[k].raw && call.inputs[k].is_array() && must_buffer(outputs[i], {call.inputs[k].array}));
    written.push_back(buffered ? temporaries.empty(made.shape, made.output_dtypes[i], device) : outputs[i]);
    made.space.strides[operand++] = written[i].strides();
  }
  finish_space(made.space, text_.reduce_dims, made.key);
  const int64_t size = made.space.size();
  if (size == 0) return outputs;

  const std::vector<int64_t> loop = made.space.packed();
  std::vector<jit::LaunchValue> values = {{{}, loop.data(), static_cast<uint32_t>(loop.size() * sizeof(int64_t))}};
  // A loop of no operand has room for one.
  std::vector<int64_t> padded;
  if (made.space.strides.empty()) {
    padded = loop;
    padded.resize(loop.size() + static_cast<size_t>(made.space.shape.rank()));
    values[0] = {{}, padded.data(), static_cast<uint32_t>(padded.size() * sizeof(int64_t))};
  }
  std::vector<PackedRaw> layouts;
  layouts.reserve(inputs_.size() + outputs_.size());
  std::vector<ElementBytes> numbers(inputs_.size());
  auto add_array = [&](const Parameter& parameter, const Array& array, bool is_output) {
    values.push_back(jit::LaunchValue::array(is_output ? write(array) : read(array)));
    if (parameter.raw) values.push_back(jit::LaunchValue::of(layouts.emplace_back(array)));
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (call.inputs[i].is_array()) {
      add_array(inputs_[i], *call.inputs[i].array, false);
    } else {
      numbers[i] = number_of(text_.name, inputs_[i], made.input_dtypes[i], call.inputs[i].scalar);
      values.push_back({{}, numbers[i].bytes, static_cast<uint32_t>(itemsize(made.input_dtypes[i]))});
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) add_array(outputs_[i], written[i], true);
  size_t bytes = 0;
  for (const jit::LaunchValue& value : values) bytes += (value.size + 15) / 16 * 16;
  if (bytes > kMaxParameterBytes)
    throw UnsupportedError(text_.name + ": its parameters and layouts take " + std::to_string(bytes) +
                           " bytes; at most " + std::to_string(kMaxParameterBytes) + " fit a launch");

  const int64_t blocks = (size + options.block_size - 1) / options.block_size;
  jit::launch_values(module(made).kernels()[0], device,
                     {.grid_x = static_cast<unsigned>(std::min(blocks, kMaxGrid)),
                      .block_x = static_cast<unsigned>(options.block_size)},
                     values);
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (written[i].storage() != outputs[i].storage()) copy_into(outputs[i], written[i]);
  return outputs;
}

}  // namespace gpukit
