#include "gpukit/ops/custom/program.h"

#include "gpukit/jit/options.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/session.h"

namespace gpukit::custom {

void Space::merge_axes() {
  Space merged;
  merged.strides.resize(strides.size());
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    const int last = merged.shape.rank() - 1;
    bool one = last >= 0;
    for (size_t i = 0; one && i < strides.size(); ++i) one = merged.strides[i][last] == strides[i][axis] * shape[axis];
    if (one) {
      merged.shape[last] *= shape[axis];
      for (size_t i = 0; i < strides.size(); ++i) merged.strides[i][last] = strides[i][axis];
    } else {
      merged.shape.push_back(shape[axis]);
      for (size_t i = 0; i < strides.size(); ++i) merged.strides[i].push_back(strides[i][axis]);
    }
  }
  *this = std::move(merged);
  if (!shape.empty()) return;
  shape = {1};
  for (Dims& steps : strides) steps = {0};
}

std::vector<int64_t> Space::packed() const {
  std::vector<int64_t> all = {size()};
  all.insert(all.end(), shape.begin(), shape.end());
  for (const Dims& steps : strides) all.insert(all.end(), steps.begin(), steps.end());
  return all;
}

Dims broadcast_strides(const Array* array, const Dims& shape) {
  Dims strides = Dims::filled(shape.rank(), 0);
  if (array == nullptr) return strides;
  const int first = shape.rank() - array->ndim();
  for (int axis = 0; axis < array->ndim(); ++axis)
    if (array->shape()[axis] != 1) strides[first + axis] = array->strides()[axis];
  return strides;
}

PackedRaw::PackedRaw(const Array& array)
    : size(array.size()), rank(array.ndim()), contiguous(array.is_contiguous() ? 1 : 0) {
  for (int axis = 0; axis < rank; ++axis) {
    shape[axis] = array.shape()[axis];
    strides[axis] = array.strides()[axis];
  }
}

namespace {

/// Calls f(parameter, array) for each array of a call.
template <typename F>
void each_array(std::span<const Parameter> inputs, std::span<const Parameter> outputs, const CallArguments& call,
                F&& f) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.inputs[i].is_array()) f(inputs[i], *call.inputs[i].array);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (call.outputs[i] != nullptr) f(outputs[i], *call.outputs[i]);
}

}  // namespace

Device common_device(const std::string& kernel, std::span<const Parameter> inputs, std::span<const Parameter> outputs,
                     const CallArguments& call) {
  const Array* first = nullptr;
  std::string name;
  each_array(inputs, outputs, call, [&](const Parameter& parameter, const Array& array) {
    if (first == nullptr) {
      first = &array;
      name = parameter.name;
    } else if (!(array.device() == first->device())) {
      throw DeviceError(kernel + ": " + parameter.name + " is on " + str(array.device()) + ", " + name + " is on " +
                        str(first->device()) + "; move one with x.to(device)");
    }
  });
  return first != nullptr ? first->device() : runtime::default_device();
}

Letters letters_of(const std::string& kernel, std::span<const Parameter> inputs, std::span<const Parameter> outputs,
                   const CallArguments& call) {
  Letters letters(kernel);
  each_array(inputs, outputs, call,
             [&](const Parameter& parameter, const Array& array) { letters.take(parameter, array); });
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!call.inputs[i].is_array()) letters.take_number(inputs[i], call.inputs[i].scalar);
  return letters;
}

std::optional<Dims> common_shape(const std::string& kernel, std::span<const Parameter> parameters,
                                 std::span<const Operand> values) {
  std::optional<Dims> shape;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].raw || !values[i].is_array()) continue;
    const Dims& own = values[i].array->shape();
    shape = shape ? broadcast_shapes(kernel, *shape, own) : own;
  }
  return shape;
}

std::vector<std::string> program_options(const std::vector<std::string>& given) {
  std::vector<std::string> options = jit::nvrtc_options(given);
  bool has_standard = false, has_space = false;
  for (const std::string& option : options) {
    has_standard = has_standard || option.rfind("-std", 0) == 0 || option.rfind("--std", 0) == 0;
    has_space = has_space || option.find("-default-device") != std::string::npos;
  }
  if (!has_standard) options.insert(options.begin(), "--std=c++17");
  if (!has_space) options.insert(options.begin(), "-default-device");
  return options;
}

std::string numbered(const char* part, const std::string& text) {
  return std::string("\n#line 1 \"") + part + "\"\n" + text + "\n#line 1 \"program\"\n";
}

std::string declare(const Parameter& parameter, DType dtype, bool is_array, bool is_output) {
  const std::string type = spelled(dtype), constant = is_output ? "" : "const ";
  if (!is_array) return ", const " + type + " " + parameter.name;
  std::string text = ", " + constant + type + "* _raw_" + parameter.name;
  if (parameter.raw) text += ", const __grid_constant__ gpukit::custom::RawLayout _layout_" + parameter.name;
  return text;
}

std::string raw_view(const Parameter& parameter, DType dtype, bool is_output) {
  return std::string("  const gpukit::custom::Raw<") + (is_output ? "" : "const ") + spelled(dtype) + "> " +
         parameter.name + "(_raw_" + parameter.name + ", _layout_" + parameter.name + ");\n";
}

}  // namespace gpukit::custom
