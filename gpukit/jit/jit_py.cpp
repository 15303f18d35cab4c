// JITKernel: kernels from CUDA source, called from Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "gpukit/base/error.h"
#include "gpukit/driver/nvrtc.h"
#include "gpukit/jit/requirements.h"
#include "gpukit/jit/user_kernel.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/objects.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"

namespace gpukit {
namespace {

using jit::Argument;
using jit::Extent;
using jit::UserKernel;

[[noreturn]] void type_error(const std::string& text) { throw nb::type_error(text.c_str()); }

std::string_view text_of(nb::handle key) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
  if (text == nullptr) nb::raise_python_error();
  return {text, static_cast<size_t>(size)};
}

Extent to_extent(const std::string& op, const char* argument, nb::handle value) {
  const auto [x, y, z] = python::to_extent(op.c_str(), argument, value);
  return {x, y, z};
}

/// The words of a call that say how to launch; each is null until given.
struct LaunchWords {
  PyObject *grid = nullptr, *block = nullptr, *shared_mem = nullptr, *stream = nullptr, *slice_ms = nullptr;

  /// False when `key` is not one of them.
  bool take(const UserKernel& kernel, std::string_view key, PyObject* value) {
    if (key == "grid_size" || key == "grid") return put(kernel, &grid, "grid_size and grid", value);
    if (key == "block_size" || key == "block") return put(kernel, &block, "block_size and block", value);
    if (key == "shared_mem") return put(kernel, &shared_mem, "shared_mem", value);
    if (key == "stream") return put(kernel, &stream, "stream", value);
    if (key == "slice_ms") return put(kernel, &slice_ms, "slice_ms", value);
    return false;
  }

 private:
  static bool put(const UserKernel& kernel, PyObject** slot, const char* names, PyObject* value) {
    if (*slot != nullptr) type_error(kernel.name() + ": " + names + " say the same thing; give one");
    if (value != Py_None) *slot = value;
    return true;
  }
};

/// One call: its values by position and by name, and how to launch.
class Call {
 public:
  Call(UserKernel& kernel, nb::handle positional, nb::handle named, const LaunchWords& words, bool words_in_named)
      : kernel_(kernel),
        positional_(positional.ptr()),
        named_(named.ptr()),
        words_(words),
        words_in_named_(words_in_named) {}

  void run() {
    prepare(true);
    Argument* arguments = make_arguments();
    python::CallScope scope;
    kernel_.launch(device_, {arguments, kernel_.parameters().size()}, options_);
  }

  /// What run() would pass: (bytes of each parameter, grid, block, shared bytes).
  nb::tuple pack() {
    if (!kernel_.compiled()) throw Error(kernel_.name() + ": not compiled yet");
    prepare(false);
    const Argument* arguments = make_arguments();
    jit::PackedCall call;
    kernel_.pack(device_, {arguments, kernel_.parameters().size()}, options_, &call);
    nb::list values;
    for (size_t i = 0; i < call.num_values; ++i) values.append(nb::bytes(call.pointers[i], call.sizes[i]));
    const jit::LaunchConfig& config = call.config;
    return nb::make_tuple(values, nb::make_tuple(config.grid_x, config.grid_y, config.grid_z),
                          nb::make_tuple(config.block_x, config.block_y, config.block_z), config.shared_bytes);
  }

 private:
  void prepare(bool to_launch) {
    if (words_in_named_) take_words();
    if (words_.stream != nullptr) stream_ = python::to_stream(kernel_.name().c_str(), words_.stream, Device{});
    device_ = find_device();
    if (to_launch && !kernel_.ready(device_)) {
      python::CallScope scope;
      kernel_.prepare(device_);
    }
    if (words_.grid != nullptr) options_.grid = to_extent(kernel_.name(), "grid_size", words_.grid);
    if (words_.block != nullptr) options_.block = to_extent(kernel_.name(), "block_size", words_.block);
    if (words_.shared_mem != nullptr) {
      options_.shared_bytes = python::to_int(kernel_.name().c_str(), "shared_mem", words_.shared_mem);
    }
    if (words_.slice_ms != nullptr) {
      const Scalar value = python::to_scalar(kernel_.name().c_str(), "slice_ms", words_.slice_ms);
      if (value.kind == ScalarKind::complex)
        throw ArgumentError(kernel_.name(), "slice_ms", "be a number of milliseconds", "a complex");
      options_.slice_ms = value.real;
    }
    if (stream_ != nullptr) options_.stream = &stream_;
  }

  /// Only as many as there are parameters are made.
  Argument* make_arguments() {
    const size_t count = kernel_.parameters().size();
    Argument* arguments = reinterpret_cast<Argument*>(storage_);
    for (size_t i = 0; i < count; ++i) new (&arguments[i]) Argument;
    fill(arguments, count);
    return arguments;
  }

  size_t num_positional() const { return static_cast<size_t>(PyTuple_GET_SIZE(positional_)); }

  template <typename F>
  void each_named(F&& f) const {
    if (named_ == Py_None) return;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(named_, &at, &key, &value) != 0;) f(key, value);
  }

  void take_words() {
    each_named([&](PyObject* key, PyObject* value) { words_.take(kernel_, text_of(key), value); });
  }

  /// Of the first array, else of the stream, else where new arrays go.
  Device find_device() const {
    for (size_t i = 0; i < num_positional(); ++i)
      if (const Array* array = python::try_array(PyTuple_GET_ITEM(positional_, i))) return array->device();
    const Array* found = nullptr;
    each_named([&](PyObject*, PyObject* value) {
      if (found == nullptr) found = python::try_array(value);
    });
    if (found != nullptr) return found->device();
    if (stream_ != nullptr) return stream_->device();
    const auto session = python::context_session();
    return session != nullptr && session->device ? *session->device : runtime::configured_device();
  }

  void set(Argument* argument, size_t index, nb::handle value) const {
    if (const Array* array = python::try_array(value)) {
      argument->kind = Argument::Kind::array;
      argument->contiguous = array->is_contiguous();
      argument->dtype = array->dtype();
      argument->device = array->device();
      argument->size = array->size();
      argument->use = read(*array);
    } else if (value.is_none()) {
      argument->kind = Argument::Kind::null;
    } else {
      argument->kind = Argument::Kind::number;
      const std::string& name = kernel_.parameters()[index].name;
      argument->number = name.empty() ? python::to_scalar(kernel_.name().c_str(),
                                                          jit::label(kernel_.parameters(), index).c_str(), value)
                                      : python::to_scalar(kernel_.name().c_str(), name.c_str(), value);
    }
  }

  void fill(Argument* arguments, size_t count) const {
    const size_t given = num_positional();
    if (given > count) {
      type_error(kernel_.name() + ": takes " + std::to_string(count) + " arguments, got " + std::to_string(given) +
                 " by position");
    }
    for (size_t i = 0; i < given; ++i) set(&arguments[i], i, PyTuple_GET_ITEM(positional_, i));
    each_named([&](PyObject* key, PyObject* value) { fill_named(arguments, count, text_of(key), value); });
    for (size_t i = 0; i < count; ++i)
      if (arguments[i].kind == Argument::Kind::missing) missing(i);
  }

  void fill_named(Argument* arguments, size_t count, std::string_view key, PyObject* value) const {
    LaunchWords ignored;
    if (words_in_named_ && ignored.take(kernel_, key, value)) return;
    for (size_t i = 0; i < count; ++i) {
      if (kernel_.parameters()[i].name != key) continue;
      if (arguments[i].kind != Argument::Kind::missing)
        type_error(kernel_.name() + ": got two values for " + std::string(key));
      return set(&arguments[i], i, value);
    }
    type_error(kernel_.name() + ": unknown argument " + std::string(key) + "; it takes " + signature());
  }

  [[noreturn]] void missing(size_t index) const {
    std::string text = kernel_.name() + ": missing " + jit::label(kernel_.parameters(), index) + " (" +
                       kernel_.parameters()[index].type.text + ")";
    LaunchWords words;
    if (words_in_named_ && words.take(kernel_, kernel_.parameters()[index].name, Py_None)) {
      text += "; the word also says how to launch: pass it by position, or with kernel.launch(args, kwargs)";
    }
    type_error(text);
  }

  std::string signature() const {
    std::string text = "(";
    for (const jit::Parameter& parameter : kernel_.parameters()) {
      if (text.size() > 1) text += ", ";
      text += parameter.type.text + (parameter.name.empty() ? "" : " " + parameter.name);
    }
    return text + ")";
  }

  UserKernel& kernel_;
  PyObject* positional_;  // a tuple
  PyObject* named_;       // a dict or None
  LaunchWords words_;
  bool words_in_named_;
  Device device_;
  std::shared_ptr<driver::Stream> stream_;
  jit::LaunchOptions options_;
  alignas(Argument) std::byte storage_[sizeof(Argument) * jit::PackedCall::kMaxParameters];
};

void call(UserKernel& kernel, const nb::args& args, const nb::kwargs& kwargs) {
  Call(kernel, args, kwargs, {}, true).run();
}

void launch(UserKernel& kernel, python::Shown<"collections.abc.Iterable[typing.Any]"> args,
            python::Shown<"dict[str, typing.Any]"> kwargs, python::ExtentArg grid_size, python::ExtentArg block_size,
            python::IntArg shared_mem, python::StreamArg stream, python::ExtentArg grid, python::ExtentArg block,
            python::Shown<"float"> slice_ms) {
  if (!kwargs.is_none() && !PyDict_Check(kwargs.ptr()))
    type_error(kernel.name() + ": kwargs must be a dict, got " + python::class_of(kwargs));
  const nb::tuple positional = python::to_items(kernel.name().c_str(), "args", args);
  // A copy: reading a value may run code that changes the caller's.
  nb::object named = nb::none();
  if (!kwargs.is_none()) named = nb::steal(PyDict_Copy(kwargs.ptr()));
  if (!named.is_valid()) nb::raise_python_error();
  LaunchWords words;
  const std::pair<const char*, nb::handle> given[] = {{"grid_size", grid_size},   {"grid", grid},
                                                      {"block_size", block_size}, {"block", block},
                                                      {"stream", stream},         {"shared_mem", shared_mem},
                                                      {"slice_ms", slice_ms}};
  for (const auto& [key, value] : given)
    if (!value.is_none()) words.take(kernel, key, value.ptr());
  Call(kernel, positional, named, words, false).run();
}

void construct(UserKernel* self, std::string source, std::string func_name,
               python::Shown<"collections.abc.Sequence[str]"> options, int64_t block_size) {
  std::vector<std::string> list;
  if (!options.is_none()) {
    if (PyUnicode_Check(options.ptr())) type_error("jit: options must be a list of strings, got one string");
    list = nb::cast<std::vector<std::string>>(options);
  }
  const auto session = python::context_session();
  python::CallScope scope;
  new (self) UserKernel(std::move(source), std::move(func_name), std::move(list), block_size);
  try {
    const Device device = session != nullptr && session->device ? *session->device : runtime::configured_device();
    if (device.kind == DeviceKind::cuda && jit::kernels_unavailable_reason().empty()) self->prepare(device);
  } catch (...) {
    self->~UserKernel();
    throw;
  }
}

std::string ptx(const UserKernel& kernel) {
  if (kernel.compiled()) return kernel.ptx();
  const std::string reason = python::in_scope([] { return jit::kernels_unavailable_reason(); });
  return "// " + kernel.name() + " is not compiled: " + (reason.empty() ? "it was not called on a GPU yet" : reason) +
         "\n";
}

nb::typed<nb::list, python::Shown<"tuple[str | None, str]">> parameters(const UserKernel& kernel) {
  nb::list result;
  if (!kernel.compiled()) return result;
  for (const jit::Parameter& parameter : kernel.parameters()) {
    result.append(nb::make_tuple(parameter.name.empty() ? nb::none() : nb::object(nb::str(parameter.name.c_str())),
                                 parameter.type.text.c_str()));
  }
  return result;
}

Device gpu_or_raise() {
  const Device device = runtime::configured_device();
  return device.kind == DeviceKind::cuda ? device : Device{DeviceKind::cuda, 0};
}

}  // namespace

void bind_jit(nb::module_& m) {
  nb::class_<UserKernel>(
      m, "JITKernel",
      "A kernel compiled from CUDA source. Calling it launches it: arrays for pointers, numbers for scalars, by "
      "position or by the names in the source; grid_size (or grid), block_size (or block), shared_mem and stream "
      "say how. A kernel with the integer parameters item_offset and item_count, which works on those items with one "
      "thread for each, can be cut: with slice_ms it runs as launches of at most that many milliseconds, and other "
      "work runs between them.")
      .def("__init__", &construct, "source"_a, "func_name"_a, "options"_a = nb::none(), "block_size"_a = 256,
           "Compiles at once where a GPU and NVRTC are present; elsewhere checks the name and keeps the source.")
      .def("__call__", &call, "args"_a, "kwargs"_a,
           nb::sig("def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> None"),
           "Launches on the device of the first array, asynchronously.")
      .def("launch", &launch, "args"_a = nb::make_tuple(), "kwargs"_a = nb::none(), "grid_size"_a = nb::none(),
           "block_size"_a = nb::none(), "shared_mem"_a = nb::none(), "stream"_a = nb::none(), "grid"_a = nb::none(),
           "block"_a = nb::none(), "slice_ms"_a = nb::none(),
           "As calling, for kernels whose own parameters have one of the words of a launch.")
      .def(
          "_pack",
          [](UserKernel& self, const nb::args& args, const nb::kwargs& kwargs) {
            return Call(self, args, kwargs, {}, true).pack();
          },
          "args"_a, "kwargs"_a,
          nb::sig("def _pack(self, *args: typing.Any, **kwargs: typing.Any) -> tuple[typing.Any, ...]"),
          "What a call would pass: values as bytes, grid, block, shared bytes. Launches nothing.")
      .def(
          "compile",
          [](UserKernel& self, const std::string& arch) {
            python::in_scope([&] { return self.compile(arch.rfind("sm_", 0) == 0 ? arch : "sm_" + arch).code.size(); });
          },
          "arch"_a, "Compiles for a chip such as '90' now; needs no GPU. Raises NvrtcError.")
      .def_prop_ro("source", &UserKernel::source, "The CUDA source.")
      .def_prop_ro("name", &UserKernel::name, "The kernel's name.")
      .def_prop_ro("options", &UserKernel::options, "Options for the compiler.")
      .def_prop_ro("block_size", &UserKernel::block_size, "Threads per block of a launch that names none.")
      .def_prop_ro("is_compiled", &UserKernel::compiled, "The compiler has accepted the source.")
      .def_prop_ro("parameters", &parameters, "(name or None, type) of each parameter, as compiled; empty before.")
      .def_prop_ro("ptx", &ptx, "The PTX, or a comment that says why there is none.")
      .def_prop_ro("log", &UserKernel::log, "What the compiler said.")
      .def(
          "get_suggested_block_size",
          [](UserKernel& self, int64_t dynamic_smem) {
            return python::in_scope(
                [&] { return self.suggested_block_size(gpu_or_raise(), static_cast<size_t>(dynamic_smem)); });
          },
          "dynamic_smem"_a = 0, "Threads per block that fill the device best.")
      .def("__repr__", [](const UserKernel& self) {
        return "JITKernel(name='" + self.name() + "', block_size=" + std::to_string(self.block_size()) +
               ", compiled=" + (self.compiled() ? "True" : "False") + ")";
      });

  m.def(
      "is_nvrtc_available", [] { return python::in_scope([] { return jit::can_compile_and_launch(); }); },
      "True where a kernel can be compiled and launched.");
  m.def(
      "jit_unavailable_reason", [] { return python::in_scope([] { return jit::kernels_unavailable_reason(); }); },
      "Why no custom kernel can be compiled and launched here: no driver, no GPU or no NVRTC, and what was tried; "
      "empty "
      "where one can.");
  m.def(
      "get_nvrtc_version",
      []() -> std::optional<std::pair<int, int>> {
        return python::in_scope([]() -> std::optional<std::pair<int, int>> {
          if (!jit::can_compile_and_launch()) return std::nullopt;
          const jit::CompilerVersion version = jit::compiler_version();
          return std::pair(version.major, version.minor);
        });
      },
      "(major, minor) of NVRTC, or None where kernels cannot be compiled and launched.");
  m.def(
      "get_nvrtc_path",
      []() -> std::optional<std::string> {
        std::string path = python::in_scope([] { return driver::nvrtc_path(); });
        return path.empty() ? std::nullopt : std::optional(path);
      },
      "The file of NVRTC, or None when none was found.");
  m.def(
      "check_driver_compatibility", [] { return python::in_scope([] { return jit::check_driver_compatibility(); }); },
      "(served, explanation) for the driver and the first GPU.");
  m.def(
      "_warm_up_compiler", [] { python::in_scope([] { return jit::warm_up_compiler(), 0; }); },
      "Compiles and loads a trivial kernel; internal.");
}

}  // namespace gpukit
