#include "gpukit/ops/create/create.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using python::ArrayObject;
using python::in_scope;
using python::to_scalar;
using python::wrap;

// Created while the session is entered, wrapped after it: to_device(None) asks the session.
template <typename F>
ArrayObject make(python::DeviceArg device, F&& f) {
  std::optional<Device> where;
  if (!device.is_none()) where = python::to_device(device);
  return wrap(in_scope([&] { return f(where); }));
}

ArrayObject make_arange(python::NumberArg start, python::NumberArg stop, python::NumberArg step, python::DTypeArg dtype,
                        python::DeviceArg device) {
  const Scalar first = stop.is_none() ? Scalar(0) : to_scalar("arange", "start", start);
  const Scalar end = to_scalar("arange", "stop", stop.is_none() ? start : stop);
  const Scalar by = to_scalar("arange", "step", step);
  const std::optional<DType> type = python::to_optional_dtype(dtype);
  return make(device, [&](std::optional<Device> where) { return arange(first, end, by, type, where); });
}

}  // namespace

void bind_create(nb::module_& m) {
  const auto constant = [&m](const char* name, Array (*f)(const Dims&, DType, std::optional<Device>), const char* doc) {
    m.def(
        name,
        [name, f](python::ShapeArg shape, python::DTypeArg dtype, python::DeviceArg device) {
          if (PyLong_Check(dtype.ptr()))
            throw nb::type_error((std::string(name) +
                                  ": dtype must be a dtype, got int; a shape is one argument, as in " + name +
                                  "((2, 3))")
                                     .c_str());
          const Dims dims = python::to_dims(name, shape);
          const DType type = python::to_optional_dtype(dtype).value_or(DType::float32);
          return make(device, [&](std::optional<Device> where) { return f(dims, type, where); });
        },
        "shape"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), doc);
  };
  constant("empty", &empty, "A new array whose values are whatever was in memory. float32 unless dtype is given.");
  constant("zeros", &zeros, "A new array of zeros, float32 unless dtype is given.");
  constant("ones", &ones, "A new array of ones, float32 unless dtype is given.");

  const auto like = [&m](const char* name, Array (*f)(const Array&, std::optional<DType>, std::optional<Device>),
                         const char* doc) {
    m.def(
        name,
        [name, f](python::ArrayArg x, python::DTypeArg dtype, python::DeviceArg device) {
          const Array& other = python::to_array(name, "x", x);
          const std::optional<DType> type = python::to_optional_dtype(dtype);
          return make(device, [&](std::optional<Device> where) { return f(other, type, where); });
        },
        "x"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), doc);
  };
  like("empty_like", &empty_like,
       "A new array with the shape of x, its dtype and device unless given; values are not set.");
  like("zeros_like", &zeros_like, "Zeros with the shape of x, and its dtype and device unless given.");
  like("ones_like", &ones_like, "Ones with the shape of x, and its dtype and device unless given.");

  m.def(
      "full",
      [](python::ShapeArg shape, python::NumberArg fill_value, python::DTypeArg dtype, python::DeviceArg device) {
        const Dims dims = python::to_dims("full", shape);
        const Scalar value = to_scalar("full", "fill_value", fill_value);
        const std::optional<DType> type = python::to_optional_dtype(dtype);
        return make(device, [&](std::optional<Device> where) { return full(dims, value, type, where); });
      },
      "shape"_a, "fill_value"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
      "A new array filled with one value. Without a dtype: bool, int64, float32 or complex64 by the value's kind.");
  m.def(
      "full_like",
      [](python::ArrayArg x, python::NumberArg fill_value, python::DTypeArg dtype, python::DeviceArg device) {
        const Array& other = python::to_array("full_like", "x", x);
        const Scalar value = to_scalar("full_like", "fill_value", fill_value);
        const std::optional<DType> type = python::to_optional_dtype(dtype);
        return make(device, [&](std::optional<Device> where) { return full_like(other, value, type, where); });
      },
      "x"_a, "fill_value"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
      "One value in the shape of x, with its dtype and device unless given.");
  m.def(
      "eye",
      [](python::IntArg n_rows, python::IntArg n_cols, python::IntArg k, python::DTypeArg dtype,
         python::DeviceArg device) {
        const int64_t rows = python::to_int("eye", "n_rows", n_rows);
        std::optional<int64_t> columns;
        if (!n_cols.is_none()) columns = python::to_int("eye", "n_cols", n_cols);
        const int64_t diagonal = python::to_int("eye", "k", k);
        const DType type = python::to_optional_dtype(dtype).value_or(DType::float32);
        return make(device, [&](std::optional<Device> where) { return eye(rows, columns, diagonal, type, where); });
      },
      "n_rows"_a, "n_cols"_a = nb::none(), "k"_a = 0, "dtype"_a = nb::none(), "device"_a = nb::none(),
      "Ones on the k-th diagonal, zeros elsewhere. float32 unless dtype is given.");
  m.def("arange", &make_arange, "start"_a, "stop"_a = nb::none(), "step"_a = 1, "dtype"_a = nb::none(),
        "device"_a = nb::none(),
        "start, start + step, ... below stop; arange(n) counts from 0. int64 for integers, else float32, unless dtype "
        "is given.");
  m.def(
      "linspace",
      [](python::NumberArg start, python::NumberArg stop, python::IntArg num, python::DTypeArg dtype, bool endpoint,
         python::DeviceArg device) {
        const Scalar first = to_scalar("linspace", "start", start), last = to_scalar("linspace", "stop", stop);
        const bool is_real = first.kind != ScalarKind::complex && last.kind != ScalarKind::complex;
        const int64_t count = python::to_int("linspace", "num", num);
        const std::optional<DType> type = python::to_optional_dtype(dtype);
        return make(device, [&](std::optional<Device> where) {
          if (is_real) return linspace(first.real, last.real, count, type, endpoint, where);
          return linspace(std::complex(first.real, first.imag), std::complex(last.real, last.imag), count, type,
                          endpoint, where);
        });
      },
      "start"_a, "stop"_a, "num"_a = 50, "dtype"_a = nb::none(), "endpoint"_a = true, "device"_a = nb::none(),
      "num evenly spaced values from start to stop, both exact; endpoint=False leaves stop out.");
}

}  // namespace gpukit
