// The class GPUArray: what it is, its conversions and views. Operators are in operators.cpp.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <vector>

#include "gpukit/array/array.h"
#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/indexing/indexing_py.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/python/element.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

/// Checks what an unbound call such as GPUArray.to(3, "cpu") passes.
const Array& self_of(nb::handle self) { return to_array("GPUArray", "self", self); }

// Conversions

AnyObject to_numpy(const Array& self, DTypeArg dtype) {
  DType wanted = dtype.is_none() ? self.dtype() : to_dtype(dtype);
  nb::object out;
  void* data = nullptr;
  call_or_park([&] {
    out = numpy().attr("empty")(from_dims(self.shape()), numpy_dtype(wanted));
    data = PyLong_AsVoidPtr(nb::object(out.attr("ctypes").attr("data")).ptr());
  });
  in_scope([&] {
    Array converted = self.dtype() == wanted ? self : astype(self, wanted);
    return to_host(data, contiguous(converted), "to_numpy"), 0;
  });
  // A type object or numpy.dtype from ml_dtypes asks for that very dtype, not for its bits.
  if (!dtype.is_none() && !PyUnicode_Check(dtype.ptr()) && Py_TYPE(dtype.ptr()) != Py_TYPE(from_dtype(wanted).ptr())) {
    nb::object exact = numpy().attr("dtype")(dtype);
    if (!exact.equal(out.attr("dtype"))) return out.attr("view")(exact);
  }
  return out;
}

AnyObject item(const Array& self, const char* caller) {
  if (self.size() != 1)
    throw nb::type_error(
        (std::string(caller) + ": only arrays of size 1 convert to a Python number, got shape " + self.shape().str())
            .c_str());
  ElementBytes element;
  in_scope([&] { return to_host(element.bytes, self, caller), 0; });
  return element_to_python(self.dtype(), element.bytes);
}

nb::object nested_list(const std::vector<unsigned char>& values, const Array& like, int axis, int64_t& at) {
  if (axis == like.ndim()) return element_to_python(like.dtype(), values.data() + (at++) * itemsize(like.dtype()));
  nb::list list;
  for (int64_t i = 0; i < like.shape()[axis]; ++i) {
    if ((i & 0xfff) == 0xfff && PyErr_CheckSignals() != 0) nb::raise_python_error();
    list.append(nested_list(values, like, axis + 1, at));
  }
  return list;
}

/// Lists without end of empty lists hold no element that would bound them.
constexpr int64_t kMaxEmptyLists = 1 << 20;

AnyObject tolist(const Array& self) {
  Dims lists;
  for (int64_t extent : self.shape()) {
    if (extent == 0) break;
    lists.push_back(extent);
  }
  if (self.size() == 0 && lists.product() > kMaxEmptyLists)
    throw ShapeError("tolist", "array", "make at most " + std::to_string(kMaxEmptyLists) + " empty lists",
                     self.shape().str());
  std::vector<unsigned char> values(static_cast<size_t>(self.nbytes()));
  in_scope([&] { return to_host(values.data(), contiguous(self), "tolist"), 0; });
  int64_t at = 0;
  return nested_list(values, self, 0, at);
}

bool truth(const Array& self) {
  if (self.size() != 1)
    throw nb::value_error(
        ("bool: the truth value of an array of shape " + self.shape().str() + " is ambiguous; use any() or all()")
            .c_str());
  return to_optional_bool(item(self, "bool")).value_or(false);
}

nb::int_ as_index(const Array& self) {
  if (!is_integer(self.dtype()) || self.size() != 1)
    throw nb::type_error((std::string("index: only integer arrays of size 1 can be an index, got ") +
                          name(self.dtype()) + " of shape " + self.shape().str())
                             .c_str());
  return nb::borrow<nb::int_>(item(self, "index"));
}

/// A new reference from the C API, or the exception it left.
template <typename T>
T taken(PyObject* object) {
  if (object == nullptr) nb::raise_python_error();
  return nb::steal<T>(object);
}

nb::int_ as_int(const Array& self) { return taken<nb::int_>(PyNumber_Long(item(self, "int").ptr())); }

nb::float_ as_float(const Array& self) { return taken<nb::float_>(PyNumber_Float(item(self, "float").ptr())); }

nb::object as_complex(const Array& self) {
  return nb::handle(reinterpret_cast<PyObject*>(&PyComplex_Type))(item(self, "complex"));
}

// Pickle

nb::typed<nb::tuple, nb::any, nb::ellipsis> reduce(nb::handle handle) {
  const Array& self = self_of(handle);
  nb::object bytes = taken<nb::object>(PyBytes_FromStringAndSize(nullptr, self.nbytes()));
  void* data = PyBytes_AS_STRING(bytes.ptr());
  in_scope([&] { return to_host(data, contiguous(self), "pickle"), 0; });
  nb::object rebuild = nb::module_::import_("pygpukit.core.array").attr("_from_bytes");
  return nb::make_tuple(rebuild,
                        nb::make_tuple(bytes, name(self.dtype()), from_dims(self.shape()), str(self.device())));
}

ArrayObject from_bytes(nb::bytes data, const char* dtype, ShapeArg shape, const char* device) {
  // Inside `with gp.device(...)` that device wins, so that arrays saved on a GPU open without one.
  auto session = context_session();
  Device where = session != nullptr && session->device ? *session->device : device_from_name(device);
  Dims dims = to_dims("pickle", shape);
  DType type = dtype_from_name(dtype);
  if (checked_bytes("pickle", dims, itemsize(type)) != static_cast<int64_t>(data.size()))
    throw FormatError("pickle: " + std::to_string(data.size()) + " bytes do not make an array of shape " + dims.str());
  return wrap(in_scope([&] { return from_host(data.c_str(), dims, type, where); }));
}

// Views

/// `x.reshape(2, 3)` and `x.reshape((2, 3))`.
Dims shape_arguments(const char* op, const nb::args& arguments) {
  if (arguments.size() == 1) return to_dims(op, arguments[0]);
  return to_dims(op, arguments);
}

ArrayObject reshape(const Array& self, nb::args arguments) {
  const Dims shape = shape_arguments("reshape", arguments);
  return wrap(in_scope([&] { return gpukit::reshape(self, shape); }));
}

ArrayObject view(const Array& self, ShapeArg new_shape) {
  if (PyUnicode_Check(new_shape.ptr()) || Py_TYPE(new_shape.ptr()) == Py_TYPE(from_dtype(DType::boolean).ptr()))
    throw nb::type_error("view: new_shape must be a shape; another dtype over the same bytes is gp.bitcast(x, dtype)");
  return wrap(self.reshape_view(fill_in_size("view", to_dims("view", new_shape), self.size())));
}

ArrayObject transpose(const Array& self, nb::args arguments) {
  if (arguments.size() == 0 || (arguments.size() == 1 && arguments[0].is_none())) return wrap(self.transpose());
  return wrap(self.permute(shape_arguments("transpose", arguments)));
}

ArrayObject narrow(const Array& self, int64_t offset, int64_t length, int axis) {
  if (self.ndim() == 0) throw ShapeError("narrow", "array", "have a dimension", "a 0-d array");
  return wrap(self.narrow(axis, offset, length));
}

ArrayObject slice_rows(const Array& self, int64_t n) {
  if (self.ndim() != 2) throw ShapeError("slice_rows", "array", "be 2D", self.shape().str());
  if (n < 0 || n > self.shape(0))
    throw ArgumentError("slice_rows", "n", "be between 0 and " + std::to_string(self.shape(0)), std::to_string(n));
  return wrap(self.slice(0, 0, n, 1));
}

ArrayObject squeeze(const Array& self, AxisArg axis) {
  return wrap(gpukit::squeeze(self, to_optional_axes("squeeze", axis)));
}

/// Sizes of -1 keep the array's own.
ArrayObject expand(const Array& self, nb::args arguments) {
  return wrap(gpukit::expand(self, shape_arguments("expand", arguments)));
}

nb::object astype_of(nb::handle handle, DTypeArg dtype, bool make_copy) {
  const Array& self = self_of(handle);
  DType wanted = to_dtype(dtype);
  if (wanted == self.dtype() && !make_copy) return nb::borrow(handle);
  return wrap(in_scope([&] { return astype(self, wanted, make_copy); }));
}

nb::object to(nb::handle handle, DeviceArg device) {
  const Array& self = self_of(handle);
  Device where = to_device(device);
  if (self.device() == where) return nb::borrow(handle);
  return wrap(in_scope([&] { return to_device(contiguous(self), where); }));
}

nb::object contiguous_of(nb::handle handle) {
  const Array& self = self_of(handle);
  if (self.is_contiguous()) return nb::borrow(handle);
  return wrap(in_scope([&] { return contiguous(self); }));
}

ArrayObject copy_of(const Array& self) {
  return wrap(in_scope([&] { return copy(self); }));
}

// What 0.2 code reads

double now() {
  timespec t;
  std::timespec_get(&t, TIME_UTC);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

constexpr const char* kLastAccess = "_last_access";

uint64_t device_ptr(nb::handle handle) {
  const Array& self = self_of(handle);
  handle.attr(kLastAccess) = now();
  return pinned_address(self);
}

double last_access(nb::handle handle) {
  if (!nb::hasattr(handle, kLastAccess)) handle.attr(kLastAccess) = now();
  return nb::cast<double>(handle.attr(kLastAccess));
}

IntTuple strides_of(const Array& self) {
  Dims bytes = self.strides();
  for (int64_t& stride : bytes) stride *= itemsize(self.dtype());
  return from_dims(bytes);
}

/// for row in array
struct ArrayIterator {
  Array array;
  int64_t next = 0;
};

void bind_iterator(nb::module_& m) {
  nb::class_<ArrayIterator>(m, "_ArrayIterator", "Rows of an array, as views; internal.")
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __iter__(self) -> _ArrayIterator"))
      .def("__next__", [](ArrayIterator& self) {
        if (self.next >= self.array.shape(0)) throw nb::stop_iteration();
        return wrap(self.array.select(0, self.next++));
      });
}

void bind_views(nb::class_<Array>& c) {
  c.def("reshape", &reshape, "shape"_a, nb::sig("def reshape(self, *shape: pygpukit.typing.ShapeLike) -> GPUArray"),
        "Another shape; one size may be -1. A view where strides allow, else a copy.")
      .def("view", &view, "new_shape"_a, "Another shape of the same memory. Raises where only a copy could have it.")
      .def("transpose", &transpose, "axes"_a,
           nb::sig("def transpose(self, *axes: pygpukit.typing.AxisLike) -> GPUArray"),
           "The axes in another order, reversed by default. A view.")
      .def_prop_ro(
          "T", [](const Array& a) { return wrap(a.transpose()); }, "The axes reversed. A view.")
      .def_prop_ro(
          "mT",
          [](const Array& a) {
            if (a.ndim() < 2) throw ShapeError("mT", "array", "have at least 2 dimensions", a.shape().str());
            Dims axes;
            for (int i = 0; i < a.ndim(); ++i) axes.push_back(i);
            std::swap(axes[a.ndim() - 1], axes[a.ndim() - 2]);
            return wrap(a.permute(axes));
          },
          "The last two axes swapped. A view.")
      .def("narrow", &narrow, "offset"_a, "length"_a, "axis"_a = -1,
           "`length` entries of an axis from `offset`. A view.")
      .def("slice_rows", &slice_rows, "n"_a, "The first n rows of a 2-D array. A view.")
      .def(
          "ravel",
          [](const Array& a) { return wrap(in_scope([&] { return contiguous(a).reshape_view(Dims{a.size()}); })); },
          "All elements on one axis: a view of a contiguous array, else a copy.")
      .def(
          "flatten",
          [](const Array& a) { return wrap(in_scope([&] { return copy(a).reshape_view(Dims{a.size()}); })); },
          "All elements on one axis, copied.")
      .def("squeeze", &squeeze, "axis"_a = nb::none(), "Without axes of size 1. A view.")
      .def(
          "expand_dims", [](const Array& a, int axis) { return wrap(a.expand_dims(axis)); }, "axis"_a,
          "With an axis of size 1 put in. A view.")
      .def("expand", &expand, "shape"_a, nb::sig("def expand(self, *shape: pygpukit.typing.ShapeLike) -> GPUArray"),
           "Broadcast to a shape; -1 keeps a size. A read-only view.");
}

void bind_conversions(nb::class_<Array>& c) {
  c.def("to_numpy", &to_numpy, "dtype"_a = nb::none(),
        "A NumPy copy. bfloat16 comes as uint16 bits, float8 and packed types as uint8 bits; `dtype` converts on the "
        "device "
        "first. Waits for the device.")
      .def(
          "item", [](const Array& a) { return item(a, "item"); }, "The only element as a Python number. Waits.")
      .def("tolist", &tolist, "Nested lists of Python numbers. Waits.")
      .def("__float__", &as_float)
      .def("__int__", &as_int)
      .def(
          "__format__",
          [](const Array& a, nb::str spec) -> nb::str {
            if (nb::len(spec) == 0) return nb::str(describe(a).c_str());
            if (a.ndim() != 0)
              throw nb::type_error(("format: only 0-d arrays take a format, got shape " + a.shape().str()).c_str());
            return taken<nb::str>(PyObject_Format(item(a, "format").ptr(), spec.ptr()));
          },
          "spec"_a)
      .def(
          "__array_namespace__",
          [](const Array&, nb::handle api_version) {
            // Each release of the standard has what those before it had.
            constexpr const char* kVersions[] = {"2021.12", "2022.12", "2023.12", "2024.12"};
            if (!api_version.is_none() && std::none_of(std::begin(kVersions), std::end(kVersions),
                                                       [&](const char* v) { return api_version.equal(nb::str(v)); }))
              throw ArgumentError("__array_namespace__", "api_version", "be 2021.12, 2022.12, 2023.12 or 2024.12",
                                  shown(api_version));
            return nb::module_::import_("pygpukit");
          },
          nb::kw_only(), "api_version"_a = nb::none(),
          nb::sig("def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType"),
          "The package: what has the functions of the array standard.")
      .def(
          "to_device",
          [](nb::handle self, DeviceArg device, StreamArg stream) {
            if (!stream.is_none())
              throw ArgumentError("to_device", "stream", "be None: the copy goes on the current stream", shown(stream));
            return to(self, device);
          },
          "device"_a, nb::kw_only(), "stream"_a = nb::none(),
          nb::sig("def to_device(self, device: pygpukit.typing.DeviceLike, *, stream: None = None) -> GPUArray"),
          "The array standard's name of to().")
      .def_prop_ro(
          "real", [](const Array& a) { return wrap(real(a)); }, "The real parts, as a view.")
      .def_prop_ro(
          "imag", [](const Array& a) { return wrap(imag(a)); }, "The imaginary parts of a complex array, as a view.")
      .def("__complex__", &as_complex, nb::sig("def __complex__(self) -> complex"))
      .def("__bool__", &truth)
      .def("__index__", &as_index)
      .def("astype", &astype_of, "dtype"_a, "copy"_a = false,
           nb::sig("def astype(self, dtype: pygpukit.typing.DTypeLike, copy: bool = False) -> GPUArray"),
           "Another dtype; the array itself when it has it already and `copy` is false.")
      .def("to", &to, "device"_a, nb::sig("def to(self, device: pygpukit.typing.DeviceLike) -> GPUArray"),
           "The same array on another device; itself when it is there already.")
      .def("copy", &copy_of, "A row-major copy.")
      .def("clone", &copy_of, "A row-major copy.")
      .def("__copy__", &copy_of)
      .def(
          "__deepcopy__", [](const Array& a, nb::handle) { return copy_of(a); }, "memo"_a)
      .def("contiguous", &contiguous_of, nb::sig("def contiguous(self) -> GPUArray"),
           "Itself when row-major, else a copy.")
      .def("is_contiguous", &Array::is_contiguous, "Row-major with no gaps.")
      .def("__reduce__", &reduce)
      .def("__repr__", [](const Array& a) { return describe(a); })
      .def("__str__", [](const Array& a) { return describe(a); });
}

}  // namespace

void bind_array(nb::module_& m) {
  bind_iterator(m);
  nb::class_<Array> c(m, "GPUArray", nb::dynamic_attr(), nb::is_weak_referenceable(),
                      "An n-dimensional array on a device. Slices, transposes and reshapes of it are views.");
  array_type = reinterpret_cast<PyTypeObject*>(c.ptr());

  c.def(
       "__init__",
       [](Array* self, ShapeArg shape, DTypeArg dtype, IntArg device_ptr, bool owns_memory, DeviceArg device) {
         Dims dims = to_dims("GPUArray", shape);
         DType type = to_dtype(dtype);
         Device where = to_device(device);
         if (device_ptr.is_none()) {
           in_scope([&] { return new (self) Array(Array::empty(dims, type, where)); });
         } else {
           uint64_t address = static_cast<uint64_t>(to_int("GPUArray", "device_ptr", device_ptr));
           new (self) Array(array_at(address, dims, type, owns_memory, where));
         }
       },
       "shape"_a, "dtype"_a = "float32", "device_ptr"_a = nb::none(), "owns_memory"_a = true, "device"_a = nb::none(),
       "Uninitialised memory, or with device_ptr the block a backend's allocate() gave. Factories are the usual way.")
      .def_prop_ro("shape", [](const Array& a) { return from_dims(a.shape()); })
      .def_prop_ro("dtype", [](const Array& a) { return from_dtype(a.dtype()); })
      .def_prop_ro("size", &Array::size, "Number of elements.")
      .def_prop_ro("ndim", &Array::ndim)
      .def_prop_ro("nbytes", &Array::nbytes)
      .def_prop_ro(
          "itemsize", [](const Array& a) { return itemsize(a.dtype()); }, "Bytes of one element.")
      .def_prop_ro("strides", &strides_of, "Steps along each axis in bytes.")
      .def_prop_ro("device", &Array::device)
      .def_prop_ro(
          "on_gpu", [](const Array& a) { return a.storage()->resident(); },
          "False while the data is evicted to host memory; it comes back when used.")
      .def_prop_ro("device_ptr", &device_ptr, "Address of the first element. Touches last_access.")
      .def_prop_ro("last_access", &last_access, "When device_ptr was last read, in seconds since the epoch.")
      .def("__len__",
           [](const Array& a) {
             if (a.ndim() == 0) throw nb::type_error("len: a 0-d array has no length");
             return a.shape(0);
           })
      .def("__iter__",
           [](const Array& a) {
             if (a.ndim() == 0) throw nb::type_error("iter: a 0-d array has no rows");
             return ArrayIterator{a, 0};
           })
      .def("__getitem__", &getitem, "key"_a.none(),
           nb::sig("def __getitem__(self, key: pygpukit.typing.Key) -> GPUArray"))
      .def("__setitem__", &setitem, "key"_a.none(), "value"_a,
           nb::sig("def __setitem__(self, key: pygpukit.typing.Key, value: pygpukit.typing.Operand) -> None"));

  bind_views(c);
  bind_conversions(c);
  bind_array_operators(c);
  bind_array_methods(c);
  bind_interop(m, c);
  // Arrays compare element by element, so they cannot be keys.
  c.attr("__hash__") = nb::none();

  m.def(
      "bitcast", [](ArrayArg x, DTypeArg dtype) { return wrap(to_array("bitcast", "x", x).bitcast(to_dtype(dtype))); },
      "x"_a, "dtype"_a, "The same bytes as another dtype. A view; another item size needs a contiguous last axis.");
  m.def("_array_from_bytes", &from_bytes, "data"_a, "dtype"_a, "shape"_a, "device"_a, "Unpickles an array; internal.");
}

}  // namespace gpukit::python
