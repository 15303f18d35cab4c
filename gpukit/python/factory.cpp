// Arrays from NumPy and from whatever else holds numbers.
#include <nanobind/stl/string.h>

#include <algorithm>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/python/interop.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

/// Copies a NumPy array of any layout and byte order.
Array upload(nb::handle array, Device device) {
  nb::object dense;
  DType dtype = DType::float32;
  Dims shape;
  const void* data = nullptr;
  call_or_park([&] {
    // require() keeps the rank of 0-d arrays, unlike ascontiguousarray. E: a plain array, since one of a class of its
    // own may say anything of itself.
    dense = numpy().attr("require")(array, "requirements"_a = "CE");
    dtype = dtype_from_numpy(dense.attr("dtype"));
    nb::object native = dense.attr("dtype").attr("newbyteorder")("=");
    if (!native.equal(dense.attr("dtype"))) dense = dense.attr("astype")(native);
    shape = to_dims("from_numpy", dense.attr("shape"));
    data = PyLong_AsVoidPtr(nb::object(dense.attr("ctypes").attr("data")).ptr());
  });
  return in_scope([&] { return from_host(data, shape, dtype, device); });
}

ArrayObject from_numpy(Shown<"pygpukit.typing.NumpyArray"> array, DeviceArg device) {
  if (!is_numpy_array(array) && !is_numpy_scalar(array))
    throw nb::type_error(
        ("from_numpy: array must be a numpy.ndarray, got " + class_of(array) + "; use gp.asarray").c_str());
  return wrap(upload(is_numpy_array(array) ? nb::borrow(array) : numpy().attr("asarray")(array), to_device(device)));
}

/// dtype of numbers that have none of their own: bool, int64, float32, complex64.
DType default_for(DType found) {
  if (found == DType::float64) return DType::float32;
  if (found == DType::complex128) return DType::complex64;
  return found;
}

ArrayObject convert(Array array, std::optional<DType> dtype, bool copy_now) {
  if (dtype && *dtype != array.dtype()) return wrap(in_scope([&] { return astype(array, *dtype); }));
  if (copy_now) return wrap(in_scope([&] { return copy(array); }));
  return wrap(std::move(array));
}

/// Python integers beyond the dtype that NumPy finds by itself, each exact. Throws ArgumentError for one that the dtype
/// cannot hold.
nb::object exact_integers(nb::handle obj, DType wanted) {
  try {
    return numpy().attr("asarray")(obj, "dtype"_a = numpy_dtype(wanted));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_OverflowError)) throw;
    throw ArgumentError("asarray", "obj", std::string("hold only values of ") + name(wanted), error.what());
  }
}

/// Python numbers, nested lists of them, and objects with a buffer.
ArrayObject from_sequence(nb::handle obj, std::optional<DType> dtype, DeviceArg device) {
  nb::object host = numpy().attr("asarray")(obj);
  DType found = dtype_from_numpy(host.attr("dtype"));
  const bool typed = is_numpy_array(obj) || is_numpy_scalar(obj) || PyObject_CheckBuffer(obj.ptr());
  if (typed && !dtype) return wrap(upload(host, to_device(device)));
  DType wanted = dtype ? *dtype : default_for(found);
  if (!typed && wanted != found && is_integer(wanted) && !is_storage_only(wanted) &&
      (is_integer(found) || is_floating(found))) {
    host = exact_integers(obj, wanted);
    found = wanted;
  }
  // Floats are rounded once, on the way in, when NumPy has the dtype; else on the device.
  if (wanted != found && wanted != DType::bfloat16 && !is_storage_only(wanted) && kind(wanted) != DTypeKind::boolean &&
      is_floating(found) == is_floating(wanted) && !is_complex(found))
    host = host.attr("astype")(numpy_dtype(wanted));
  return convert(upload(host, to_device(device)), wanted, false);
}

bool is_list(nb::handle obj) { return PyList_Check(obj.ptr()) || PyTuple_Check(obj.ptr()); }

/// Whether a list or tuple, or one of `depth` levels in it, has a GPUArray.
bool holds_arrays(nb::handle obj, int depth = kMaxRank) {
  if (depth == 0 || !is_list(obj)) return false;
  PyObject** items = PySequence_Fast_ITEMS(obj.ptr());
  return std::any_of(items, items + PySequence_Fast_GET_SIZE(obj.ptr()),
                     [&](PyObject* item) { return try_array(item) != nullptr || holds_arrays(item, depth - 1); });
}

Array stack_nested(nb::handle obj, int depth = kMaxRank) {
  if (!is_list(obj)) return to_array("asarray", "what lies beside a GPUArray", obj);
  if (depth == 0) throw ShapeError("asarray: lists of arrays may be nested 8 deep");
  std::vector<Array> parts;
  for (nb::handle item : nb::borrow<nb::sequence>(obj)) parts.push_back(stack_nested(item, depth - 1));
  return in_scope([&] { return stack(parts); });
}

nb::object asarray(nb::handle obj, DTypeArg dtype, DeviceArg device, BoolArg copy_wanted) {
  std::optional<DType> wanted = to_optional_dtype(dtype);
  const std::optional<bool> copies = to_optional_bool(copy_wanted);
  if (const Array* own = try_array(obj)) {
    Device where = device.is_none() ? own->device() : to_device(device);
    bool changes = !(where == own->device()) || (wanted && *wanted != own->dtype());
    if (!changes && copies != true) return nb::borrow(obj);
    if (copies == false) throw ArgumentError("asarray: copy=False forbids the change of dtype or device asked for");
    Array moved = in_scope([&] { return where == own->device() ? *own : to_device(contiguous(*own), where); });
    return convert(std::move(moved), wanted, copies == true && where == own->device());
  }
  if (holds_arrays(obj)) {
    if (copies == false) throw ArgumentError("asarray: copy=False forbids stacking arrays");
    return asarray(wrap(stack_nested(obj)), dtype, device, nb::none());
  }
  if (is_numpy_array(obj) || is_numpy_scalar(obj) || PySequence_Check(obj.ptr()) || PyNumber_Check(obj.ptr())) {
    bool shareable = is_numpy_array(obj) && to_device(device).kind == DeviceKind::cpu;
    if (copies == false) {
      if (!shareable)
        throw ArgumentError(
            "asarray: copy=False forbids copying host data; use a device array or np.ndarray on the CPU");
      ArrayObject shared = from_dlpack(obj, device, copies);
      if (wanted && *wanted != to_array("asarray", "obj", shared).dtype())
        throw ArgumentError("asarray: copy=False forbids the change of dtype asked for");
      return shared;
    }
    if (!nb::hasattr(obj, "__dlpack__") || is_numpy_array(obj) || is_numpy_scalar(obj))
      return from_sequence(obj, wanted, device);
  }
  ArrayObject shared = nb::hasattr(obj, "__dlpack__")                 ? from_dlpack(obj, device, copies)
                       : nb::hasattr(obj, "__cuda_array_interface__") ? from_cuda_array_interface(obj, device, copies)
                                                                      : from_sequence(obj, wanted, device);
  const Array& array = to_array("asarray", "obj", shared);
  if (!wanted || *wanted == array.dtype()) return shared;
  if (copies == false) throw ArgumentError("asarray: copy=False forbids the change of dtype asked for");
  return convert(array, wanted, false);
}

}  // namespace

void bind_factory(nb::module_& m) {
  m.def("from_numpy", &from_numpy, "array"_a, "device"_a = nb::none(),
        "A copy of a NumPy array. uint16 stays uint16; gp.bitcast makes bits bfloat16.");
  m.def(
      "array",
      [](nb::handle obj, DTypeArg dtype, DeviceArg device, bool copy) {
        return asarray(obj, dtype, device, copy ? nb::handle(Py_True) : nb::handle(Py_None));
      },
      "obj"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), "copy"_a = true,
      nb::sig("def array(obj: object, dtype: pygpukit.typing.DTypeLike | None = None, "
              "device: pygpukit.typing.DeviceLike | None = None, copy: bool = True) -> GPUArray"),
      "asarray, always a copy unless copy is false.");
  m.def("asarray", &asarray, "obj"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), "copy"_a = nb::none(),
        nb::sig("def asarray(obj: object, dtype: pygpukit.typing.DTypeLike | None = None, "
                "device: pygpukit.typing.DeviceLike | None = None, "
                "copy: bool | None = None) -> GPUArray"),
        "An array from an array, a NumPy array, numbers, nested lists of numbers or of arrays, or any object with "
        "__dlpack__ or __cuda_array_interface__. The memory of such objects is shared, NumPy's is copied. Python "
        "floats become "
        "float32.");
}

}  // namespace gpukit::python
