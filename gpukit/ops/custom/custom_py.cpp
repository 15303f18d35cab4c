// ElementwiseKernel and ReductionKernel.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "gpukit/ops/custom/elementwise_kernel.h"
#include "gpukit/ops/custom/reduction_kernel.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

using OptionsArg = Shown<"collections.abc.Sequence[str]">;
using OutArg = Shown<"GPUArray | collections.abc.Sequence[GPUArray]">;

std::vector<std::string> to_options(const char* op, OptionsArg options) {
  if (options.is_none()) return {};
  if (PyUnicode_Check(options.ptr()))
    throw nb::type_error((std::string(op) + ": options must be a sequence of strings, got one string").c_str());
  return nb::cast<std::vector<std::string>>(nb::handle(options.ptr()));
}

/// The arguments of one call: inputs by position, then outputs, by position or as out=.
class Call {
 public:
  template <typename Kernel>
  Call(const Kernel& kernel, const nb::args& args, nb::handle out) {
    const std::string& name = kernel.text().name;
    const size_t num_inputs = kernel.inputs().size(), num_outputs = kernel.outputs().size(), given = args.size();
    const bool with_outputs = given == num_inputs + num_outputs;
    if (given != num_inputs && !with_outputs)
      throw nb::type_error((name + ": takes " + std::to_string(num_inputs) + " inputs and, after them, " +
                            std::to_string(num_outputs) + " outputs or none; got " + std::to_string(given) +
                            " arguments")
                               .c_str());
    if (with_outputs && num_outputs != 0 && !out.is_none())
      throw nb::type_error((name + ": outputs are given by position and as out=; give them once").c_str());
    for (size_t i = 0; i < num_inputs; ++i) {
      held_.append(args[i]);
      arguments.inputs.push_back(to_operand(name.c_str(), kernel.inputs()[i].name.c_str(), args[i]));
    }
    arguments.outputs.assign(num_outputs, nullptr);
    outputs_.assign(num_outputs, nb::none());
    auto set = [&](size_t i, nb::handle value) {
      if (value.is_none()) return;
      outputs_[i] = nb::borrow(value);
      arguments.outputs[i] = &to_array(name.c_str(), kernel.outputs()[i].name.c_str(), value);
    };
    if (with_outputs)
      for (size_t i = 0; i < num_outputs; ++i) set(i, args[num_inputs + i]);
    if (out.is_none()) return;
    if (try_array(out) != nullptr && num_outputs == 1) {
      set(0, out);
      return;
    }
    const nb::tuple items = to_items(name.c_str(), "out", out);
    if (items.size() != num_outputs)
      throw nb::type_error(
          (name + ": out must have " + std::to_string(num_outputs) + " arrays, got " + std::to_string(items.size()))
              .c_str());
    for (size_t i = 0; i < num_outputs; ++i) set(i, items[i]);
  }

  /// One array, or a tuple of several: those given are given back as they are.
  nb::object give(std::vector<Array>&& results, bool as_tuple) {
    for (size_t i = 0; i < results.size(); ++i)
      if (outputs_[i].is_none()) outputs_[i] = wrap(std::move(results[i]));
    if (results.size() == 1 && !as_tuple) return outputs_[0];
    nb::list all;
    for (const nb::object& output : outputs_) all.append(output);
    return nb::tuple(all);
  }

  custom::CallArguments arguments;

 private:
  nb::list held_;
  std::vector<nb::object> outputs_;
};

/// What a user may do with the results.
struct Elementwise : ElementwiseKernel {
  Elementwise(ElementwiseText text, bool no_return, bool return_tuple)
      : ElementwiseKernel(std::move(text)), no_return(no_return), return_tuple(return_tuple) {}
  bool no_return, return_tuple;
};

custom::CallOptions to_call_options(const std::string& name, IntArg size, IntArg block_size) {
  custom::CallOptions options;
  options.size = to_optional_int(name.c_str(), "size", size);
  options.block_size = to_int(name.c_str(), "block_size", block_size);
  return options;
}

void bind_elementwise_kernel(nb::module_& m) {
  nb::class_<Elementwise>(
      m, "ElementwiseKernel",
      "An elementwise kernel from an expression in CUDA C. in_params and out_params are lists such as 'T x, raw "
      "float32 "
      "y': the name of a dtype or one letter, which is the dtype of the arrays passed for it, and a name. The "
      "operation "
      "is run for each element of the inputs, broadcast together; in it a name is the element, i its number, "
      "_ind.size() "
      "how many there are, _ind.get() its index on each axis. A raw array is not broadcast and is read by index: y[i], "
      "y.size(). Compiled once for each combination of dtypes and layouts, in memory and on disk.")
      .def(
          "__init__",
          [](Elementwise* self, std::string in_params, std::string out_params, std::string operation, std::string name,
             bool reduce_dims, std::string preamble, bool no_return, bool return_tuple, std::string loop_prep,
             std::string after_loop, OptionsArg options) {
            new (self) Elementwise({.in_params = std::move(in_params),
                                    .out_params = std::move(out_params),
                                    .operation = std::move(operation),
                                    .name = std::move(name),
                                    .preamble = std::move(preamble),
                                    .loop_prep = std::move(loop_prep),
                                    .after_loop = std::move(after_loop),
                                    .options = to_options("ElementwiseKernel", options),
                                    .reduce_dims = reduce_dims},
                                   no_return, return_tuple);
          },
          "in_params"_a, "out_params"_a, "operation"_a, "name"_a = "kernel", "reduce_dims"_a = true, "preamble"_a = "",
          "no_return"_a = false, "return_tuple"_a = false, nb::kw_only(), "loop_prep"_a = "", "after_loop"_a = "",
          "options"_a = nb::make_tuple(), "Reads the parameters; the compiler sees the program at the first call.")
      .def(
          "__call__",
          [](Elementwise& self, const nb::args& args, OutArg out, IntArg size, IntArg block_size) -> nb::object {
            Call call(self, args, out);
            const custom::CallOptions options = to_call_options(self.text().name, size, block_size);
            std::vector<Array> results = in_scope([&] { return self(call.arguments, options); });
            if (self.no_return) return nb::none();
            return call.give(std::move(results), self.return_tuple);
          },
          "args"_a, "out"_a = nb::none(), "size"_a = nb::none(), "block_size"_a = 256,
          nb::sig("def __call__(self, *args: pygpukit.typing.Operand, out: GPUArray | "
                  "collections.abc.Sequence[GPUArray] | None = None, size: typing.SupportsIndex | None = None, "
                  "block_size: typing.SupportsIndex = 256) -> typing.Any"),
          "Inputs, arrays or numbers, and after them or as out= the outputs, which are made where none are given. "
          "size: "
          "how many elements there are where every array is raw.")
      .def(
          "_program",
          [](Elementwise& self, const nb::args& args, OutArg out, IntArg size) {
            Call call(self, args, out);
            const custom::CallOptions options = to_call_options(self.text().name, size, nb::int_(256));
            return in_scope([&] { return self.program(call.arguments, options); });
          },
          "args"_a, "out"_a = nb::none(), "size"_a = nb::none(),
          nb::sig("def _program(self, *args: typing.Any, out: typing.Any = None, size: typing.SupportsIndex | None = "
                  "None) -> str"),
          "The program of a call; launches nothing.")
      .def(
          "_compile",
          [](Elementwise& self, const nb::args& args, const std::string& arch, OutArg out, IntArg size) {
            Call call(self, args, out);
            const custom::CallOptions options = to_call_options(self.text().name, size, nb::int_(256));
            return in_scope([&] { return self.compile(call.arguments, options, arch); });
          },
          "args"_a, "arch"_a = "sm_80", "out"_a = nb::none(), "size"_a = nb::none(),
          nb::sig("def _compile(self, *args: typing.Any, arch: str = 'sm_80', out: typing.Any = None, size: "
                  "typing.SupportsIndex | None = None) -> int"),
          "Bytes of the program of a call, compiled for a chip; launches nothing.")
      .def_prop_ro(
          "name", [](const Elementwise& self) { return self.text().name; }, "The kernel's name.")
      .def_prop_ro(
          "operation", [](const Elementwise& self) { return self.text().operation; }, "The expression.")
      .def_prop_ro(
          "nin", [](const Elementwise& self) { return self.inputs().size(); }, "Number of inputs.")
      .def_prop_ro(
          "nout", [](const Elementwise& self) { return self.outputs().size(); }, "Number of outputs.")
      .def("__repr__", [](const Elementwise& self) {
        return "ElementwiseKernel('" + self.text().in_params + "', '" + self.text().out_params + "', name='" +
               self.text().name + "')";
      });
}

std::string to_identity(nb::handle identity) {
  if (identity.is_none()) return {};
  if (PyUnicode_Check(identity.ptr())) return nb::cast<std::string>(identity);
  const Scalar value = to_scalar("ReductionKernel", "identity", identity);
  if (value.kind == ScalarKind::complex || value.real - value.real != 0)
    throw ArgumentError("ReductionKernel", "identity", "be a finite real number or an expression in CUDA C",
                        shown(identity));
  if (value.kind == ScalarKind::boolean) return value.integer != 0 ? "true" : "false";
  return nb::cast<std::string>(nb::repr(identity));
}

void bind_reduction_kernel(nb::module_& m) {
  nb::class_<ReductionKernel>(
      m, "ReductionKernel",
      "A reduction from expressions in CUDA C. map_expr is a value of each element, reduce_expr joins two values a and "
      "b, post_map_expr gives an output from the value a: ReductionKernel('T x', 'T y', 'x * x', 'a + b', 'y = "
      "sqrt(a)', '0', 'norm'). The order in which values are joined follows from the number of elements alone. "
      "reduce_type is the type of the values: by default the first output's, float for 16-bit floats. identity is "
      "the value of no elements.")
      .def(
          "__init__",
          [](ReductionKernel* self, std::string in_params, std::string out_params, std::string map_expr,
             std::string reduce_expr, std::string post_map_expr, Shown<"str | pygpukit.typing.Number"> identity,
             std::string name, const std::optional<std::string>& reduce_type, bool reduce_dims, std::string preamble,
             OptionsArg options) {
            new (self) ReductionKernel({.in_params = std::move(in_params),
                                        .out_params = std::move(out_params),
                                        .map_expr = std::move(map_expr),
                                        .reduce_expr = std::move(reduce_expr),
                                        .post_map_expr = std::move(post_map_expr),
                                        .identity = to_identity(identity),
                                        .name = std::move(name),
                                        .reduce_type = reduce_type.value_or(""),
                                        .preamble = std::move(preamble),
                                        .options = to_options("ReductionKernel", options),
                                        .reduce_dims = reduce_dims});
          },
          "in_params"_a, "out_params"_a, "map_expr"_a, "reduce_expr"_a, "post_map_expr"_a, "identity"_a.none(),
          "name"_a = "reduce_kernel", "reduce_type"_a = nb::none(), "reduce_dims"_a = true, "preamble"_a = "",
          "options"_a = nb::make_tuple(), "Reads the parameters; the compiler sees the program at the first call.")
      .def(
          "__call__",
          [](ReductionKernel& self, const nb::args& args, OutArg out, AxisArg axis, bool keepdims) -> nb::object {
            Call call(self, args, out);
            const std::optional<Dims> axes = to_optional_axes(self.text().name.c_str(), axis);
            return call.give(in_scope([&] { return self(call.arguments, axes, keepdims); }), false);
          },
          "args"_a, "out"_a = nb::none(), "axis"_a = nb::none(), "keepdims"_a = false,
          nb::sig("def __call__(self, *args: pygpukit.typing.Operand, out: GPUArray | "
                  "collections.abc.Sequence[GPUArray] | None = None, axis: pygpukit.typing.AxisLike | None = None, "
                  "keepdims: "
                  "bool = False) -> typing.Any"),
          "Inputs, arrays or numbers, and after them or as out= the outputs, which are made where none are given. The "
          "inputs broadcast together and are reduced over the axes, all by default.")
      .def(
          "_program",
          [](ReductionKernel& self, const nb::args& args, AxisArg axis, bool keepdims) {
            Call call(self, args, nb::none());
            const std::optional<Dims> axes = to_optional_axes(self.text().name.c_str(), axis);
            return in_scope([&] { return self.program(call.arguments, axes, keepdims); });
          },
          "args"_a, "axis"_a = nb::none(), "keepdims"_a = false,
          nb::sig(
              "def _program(self, *args: typing.Any, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = "
              "False) -> str"),
          "The program of a call; launches nothing.")
      .def(
          "_compile",
          [](ReductionKernel& self, const nb::args& args, const std::string& arch, AxisArg axis, bool keepdims) {
            Call call(self, args, nb::none());
            const std::optional<Dims> axes = to_optional_axes(self.text().name.c_str(), axis);
            return in_scope([&] { return self.compile(call.arguments, axes, keepdims, arch); });
          },
          "args"_a, "arch"_a = "sm_80", "axis"_a = nb::none(), "keepdims"_a = false,
          nb::sig("def _compile(self, *args: typing.Any, arch: str = 'sm_80', axis: pygpukit.typing.AxisLike | None = "
                  "None, keepdims: bool = False) -> int"),
          "Bytes of the program of a call, compiled for a chip; launches nothing.")
      .def_prop_ro(
          "name", [](const ReductionKernel& self) { return self.text().name; }, "The kernel's name.")
      .def_prop_ro(
          "nin", [](const ReductionKernel& self) { return self.inputs().size(); }, "Number of inputs.")
      .def_prop_ro(
          "nout", [](const ReductionKernel& self) { return self.outputs().size(); }, "Number of outputs.")
      .def("__repr__", [](const ReductionKernel& self) {
        return "ReductionKernel('" + self.text().in_params + "', '" + self.text().out_params + "', name='" +
               self.text().name + "')";
      });
}

}  // namespace

void bind_custom(nb::module_& m) {
  bind_elementwise_kernel(m);
  bind_reduction_kernel(m);
}

}  // namespace gpukit
