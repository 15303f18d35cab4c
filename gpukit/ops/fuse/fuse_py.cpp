// fuse: functions of elementwise calls as one pass.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "gpukit/jit/user_kernel.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/fuse/fused.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/state.h"

namespace gpukit {

namespace {

using namespace python;

using AnyTuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;

/// The trace in force on this thread for a scope.
class TraceScope {
 public:
  explicit TraceScope(Trace& trace) : before_(runtime::set_tracing(&trace)) {}
  ~TraceScope() { runtime::set_tracing(before_); }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  runtime::Tracing* before_;
};

/// What a function came to for one kind of arguments.
struct Traced {
  Fused fused;
  bool is_tuple;
};

/// The arguments of one call: its arrays in order, and what tells kinds of calls apart.
struct CallReader {
  const std::string& name;
  std::vector<Array> arrays;
  std::string key;
  std::vector<nb::object> held;

  void read(nb::handle value, const std::string& where) {
    if (const Array* array = try_array(value)) {
      arrays.push_back(*array);
      put('A', static_cast<int>(array->dtype()));
      put('d', static_cast<int>(array->device().kind) * 64 + array->device().index);
      put('r', array->ndim());
      for (int64_t extent : array->shape()) put('s', extent);
    } else if (value.is_none() || PyBool_Check(value.ptr())) {
      key += value.is_none() ? 'N' : value.ptr() == Py_True ? 'T' : 'F';
    } else if (PyFloat_CheckExact(value.ptr())) {
      const double number = PyFloat_AS_DOUBLE(value.ptr());
      int64_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      put('f', bits);
    } else if (PyLong_CheckExact(value.ptr()) || PyComplex_CheckExact(value.ptr()) ||
               PyUnicode_CheckExact(value.ptr())) {
      put_text(PyLong_CheckExact(value.ptr()) ? 'i' : PyUnicode_CheckExact(value.ptr()) ? 'u' : 'c', nb::repr(value));
    } else if (is_numpy_scalar(value)) {
      put_text('n', nb::str(value.attr("dtype")));
      const nb::bytes bytes = nb::cast<nb::bytes>(value.attr("tobytes")());
      put('b', static_cast<int64_t>(bytes.size()));
      key.append(bytes.c_str(), bytes.size());
    } else if (PyTuple_CheckExact(value.ptr())) {
      put('t', PyTuple_GET_SIZE(value.ptr()));
      for (nb::handle item : nb::borrow<nb::tuple>(value)) {
        if (try_array(item) != nullptr) refuse(value, where);
        read(item, where);
      }
    } else if (PyType_Check(value.ptr()) || DTypeObject::check(value.ptr())) {
      // Kept by the trace, so that no other object has its address.
      held.push_back(nb::borrow(value));
      put('o', static_cast<int64_t>(reinterpret_cast<uintptr_t>(value.ptr())));
    } else {
      refuse(value, where);
    }
  }

  [[noreturn]] void refuse(nb::handle value, const std::string& where) const {
    throw nb::type_error(
        (name + ": " + where +
         " must be a GPUArray, a number, a string, a dtype, None, or a tuple of those but arrays, got " +
         class_of(value) + "; each array must be an argument of its own")
            .c_str());
  }
  void put(char kind, int64_t number) {
    key += kind;
    key.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void put_text(char kind, const nb::object& object) {
    const std::string text = nb::cast<std::string>(nb::str(object));
    put(kind, static_cast<int64_t>(text.size()));
    key += text;
  }
};

class FusedFunction {
 public:
  FusedFunction(nb::object function, std::string name) : function_(std::move(function)), name_(std::move(name)) {}

  nb::object call(const nb::tuple& args, const nb::dict& kwargs, nb::handle out) {
    // A fused function in a fused function is a part of it.
    if (runtime::tracing() != nullptr) {
      if (!out.is_none()) runtime::refuse_in_trace(name_.c_str(), "writes into an array (out=)");
      return function_(*args, **kwargs);
    }
    CallReader reader = read(args, kwargs);
    if (reader.arrays[0].device().kind == DeviceKind::cuda && !compiles()) return chain(args, kwargs, out);
    const std::shared_ptr<const Traced> traced = find(reader, args, kwargs);
    std::vector<const Array*> outs = to_outs(out, *traced);
    std::vector<Array> results = in_scope([&] { return traced->fused.run(reader.arrays, outs); });
    if (!out.is_none()) return nb::borrow(out);
    if (!traced->is_tuple) return wrap(std::move(results[0]));
    nb::list all;
    for (Array& result : results) all.append(wrap(std::move(result)));
    return nb::tuple(all);
  }

  std::string program(const nb::tuple& args, const nb::dict& kwargs) {
    CallReader reader = read(args, kwargs);
    const std::shared_ptr<const Traced> traced = find(reader, args, kwargs);
    return in_scope([&] { return traced->fused.program(reader.arrays); });
  }
  size_t compile(const nb::tuple& args, const nb::dict& kwargs, const std::string& arch) {
    CallReader reader = read(args, kwargs);
    const std::shared_ptr<const Traced> traced = find(reader, args, kwargs);
    return in_scope([&] { return traced->fused.compile(reader.arrays, arch); });
  }
  size_t num_traces() const {
    std::lock_guard lock(mutex_);
    return num_traces_;
  }
  const nb::object& function() const { return function_; }

 private:
  struct Kept {
    std::shared_ptr<const Traced> traced;
    std::vector<nb::object> held;
  };
  /// More kinds of calls than this start anew: a number that changes with each call must not fill the memory.
  static constexpr size_t kMostTraces = 256;

  CallReader read(const nb::tuple& args, const nb::dict& kwargs) const {
    CallReader reader{.name = name_, .arrays = {}, .key = {}, .held = {}};
    size_t place = 0;
    for (nb::handle value : args) reader.read(value, "argument " + std::to_string(++place));
    for (auto [key, value] : kwargs) {
      reader.put_text('k', nb::borrow(key));
      reader.read(value, nb::cast<std::string>(key));
    }
    if (reader.arrays.empty())
      throw nb::type_error(("fuse: " + name_ + ": must be called with an array at least, got none").c_str());
    return reader;
  }

  /// Whether kernels can be made here at all; looked at until they can.
  bool compiles() {
    if (!compiles_) compiles_ = in_scope([] { return jit::kernels_unavailable_reason().empty(); });
    return compiles_;
  }

  std::shared_ptr<const Traced> find(CallReader& reader, const nb::tuple& args, const nb::dict& kwargs) {
    {
      std::lock_guard lock(mutex_);
      if (const auto found = traces_.find(reader.key); found != traces_.end()) return found->second.traced;
    }
    std::shared_ptr<const Traced> traced = trace(reader, args, kwargs);
    std::map<std::string, Kept> old;  // its objects go with no lock held
    std::lock_guard lock(mutex_);
    ++num_traces_;
    if (traces_.size() >= kMostTraces) old.swap(traces_);
    traces_[reader.key] = {traced, std::move(reader.held)};
    return traced;
  }

  std::shared_ptr<const Traced> trace(const CallReader& reader, const nb::tuple& args, const nb::dict& kwargs) {
    Trace trace(name_, reader.arrays[0].device());
    auto stand_in = [&](nb::handle value) -> nb::object {
      const Array* array = try_array(value);
      if (array == nullptr) return nb::borrow(value);
      return wrap(trace.argument(array->shape(), array->dtype(), array->device()));
    };
    nb::list positional;
    for (nb::handle value : args) positional.append(stand_in(value));
    nb::dict named;
    for (auto [key, value] : kwargs) named[key] = stand_in(value);
    nb::object returned;
    {
      const TraceScope scope(trace);
      returned = function_(*nb::tuple(positional), **named);
    }
    trace.op = "result";
    std::vector<Array> results;
    auto add = [&](nb::handle value) {
      const Array* array = try_array(value);
      if (array == nullptr)
        throw nb::type_error(
            ("fuse: " + name_ + ": must return an array or a tuple of arrays, got " + class_of(value)).c_str());
      results.push_back(*array);
    };
    const bool is_tuple = PyTuple_Check(returned.ptr()) || PyList_Check(returned.ptr());
    if (is_tuple) {
      for (nb::handle item : nb::tuple(returned)) add(item);
      if (results.empty())
        throw nb::type_error(("fuse: " + name_ + ": must return an array at least, got none").c_str());
    } else {
      add(returned);
    }
    return std::shared_ptr<const Traced>(new Traced{Fused(trace, results), is_tuple});
  }

  std::vector<const Array*> to_outs(nb::handle out, const Traced& traced) const {
    return to_outs(out, traced.fused.graph().results.size(), traced.is_tuple);
  }
  std::vector<const Array*> to_outs(nb::handle out, size_t count, bool is_tuple) const {
    std::vector<const Array*> outs;
    if (out.is_none()) return outs;
    if (!is_tuple) return {&to_array(name_.c_str(), "out", out)};
    if (!PyTuple_Check(out.ptr()) && !PyList_Check(out.ptr()))
      throw nb::type_error(
          (name_ + ": out must be a tuple of " + std::to_string(count) + " arrays, got " + class_of(out)).c_str());
    const nb::tuple items = to_items(name_.c_str(), "out", out);
    if (items.size() != count)
      throw nb::type_error(
          (name_ + ": out must have " + std::to_string(count) + " arrays, got " + std::to_string(items.size()))
              .c_str());
    for (nb::handle item : items) outs.push_back(&to_array(name_.c_str(), "out", item));
    return outs;
  }

  /// The calls one by one, where no kernel can be compiled.
  nb::object chain(const nb::tuple& args, const nb::dict& kwargs, nb::handle out) {
    nb::object returned = function_(*args, **kwargs);
    if (out.is_none()) return returned;
    const bool is_tuple = PyTuple_Check(returned.ptr()) || PyList_Check(returned.ptr());
    const nb::tuple items = is_tuple ? nb::tuple(returned) : nb::make_tuple(returned);
    const std::vector<const Array*> outs = to_outs(out, items.size(), is_tuple);
    for (size_t i = 0; i < outs.size(); ++i) {
      const Array& from = to_array(name_.c_str(), "result", items[i]);
      in_scope([&] {
        result(name_.c_str(), outs[i], from.shape(), from.dtype(), from.device());
        return copy_into(*outs[i], from), 0;
      });
    }
    return nb::borrow(out);
  }

  nb::object function_;
  std::string name_;
  bool compiles_ = false;
  mutable std::mutex mutex_;
  size_t num_traces_ = 0;
  std::map<std::string, Kept> traces_;
};

}  // namespace

void bind_fuse(nb::module_& m) {
  nb::class_<FusedFunction>(m, "_FusedFunction",
                            "A function of elementwise calls that runs as one pass; made by fuse().")
      .def(nb::init<AnyObject, std::string>(), "function"_a, "name"_a)
      .def(
          "__call__",
          [](FusedFunction& self, const AnyTuple& args, const AnyDict& kwargs, AnyArg out) -> AnyObject {
            return self.call(args, kwargs, out);
          },
          "args"_a, "kwargs"_a, "out"_a = nb::none(), "Traces the function the first time it meets such arguments.")
      .def(
          "program",
          [](FusedFunction& self, const AnyTuple& args, const AnyDict& kwargs) { return self.program(args, kwargs); },
          "args"_a, "kwargs"_a, "The CUDA C of the kernel for such arguments.")
      .def(
          "compile",
          [](FusedFunction& self, const AnyTuple& args, const AnyDict& kwargs, const std::string& arch) {
            return self.compile(args, kwargs, arch);
          },
          "args"_a, "kwargs"_a, "arch"_a, "Bytes of the kernel for such arguments, compiled for a chip.")
      .def_prop_ro("num_traces", &FusedFunction::num_traces, "How often the function was traced.");
}

}  // namespace gpukit
