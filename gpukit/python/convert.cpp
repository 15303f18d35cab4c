// Numbers, shapes and dtypes between Python and the library.
#include <array>
#include <complex>

#include "gpukit/base/error.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

std::array<PyObject*, kNumDTypes> dtype_objects = {};

PyObject* numpy_attribute(const char* attribute) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = PyDict_GetItemString(modules, "numpy");
  if (module == nullptr) return nullptr;
  PyObject* value = PyObject_GetAttrString(module, attribute);
  if (value == nullptr) PyErr_Clear();
  return value;  // one reference is kept for the process
}

bool is_instance_of(nb::handle value, PyObject*& type, const char* attribute) {
  if (type == nullptr) type = numpy_attribute(attribute);
  return type != nullptr && PyType_IsSubtype(Py_TYPE(value.ptr()), reinterpret_cast<PyTypeObject*>(type));
}

[[noreturn]] void unsupported(const std::string& text) { throw DTypeError("Unsupported dtype: " + text); }

std::string text_of(nb::handle value) { return nb::str(value).c_str(); }

}  // namespace

std::string class_of(nb::handle value) {
  PyTypeObject* type = Py_TYPE(value.ptr());
  nb::handle t(reinterpret_cast<PyObject*>(type));
  std::string module = text_of(nb::getattr(t, "__module__", nb::str("builtins")));
  std::string name = text_of(t.attr("__qualname__"));
  return module == "builtins" ? name : module + "." + name;
}

nb::handle numpy() {
  // Not a guarded static: importing lets other threads run, and one of them may come here.
  static PyObject* module = nullptr;
  if (module == nullptr) module = nb::module_::import_("numpy").release().ptr();
  return module;
}

bool is_numpy_scalar(nb::handle value) {
  static PyObject* type = nullptr;
  return is_instance_of(value, type, "generic");
}

bool is_numpy_array(nb::handle value) {
  static PyObject* type = nullptr;
  return is_instance_of(value, type, "ndarray");
}

// dtypes

void register_dtype(int index, nb::object object) {
  if (index < 0 || index >= kNumDTypes) throw OutOfRangeError("register_dtype", index, kNumDTypes);
  dtype_objects[index] = object.release().ptr();
}

bool DTypeObject::check(PyObject* object) { return Py_TYPE(object) == Py_TYPE(dtype_objects[0]); }

DTypeObject from_dtype(DType dtype) { return nb::borrow<DTypeObject>(dtype_objects[static_cast<int>(dtype)]); }

nb::object numpy_dtype(DType dtype) {
  const char* text = name(dtype);
  if (dtype == DType::bfloat16) text = "uint16";
  if (is_storage_only(dtype)) text = "uint8";
  return numpy().attr("dtype")(text);
}

DType dtype_from_numpy(nb::handle dtype) {
  std::string text = text_of(dtype.attr("name"));
  // NumPy has no float8 of its own; ml_dtypes calls the format without infinities `fn`.
  if (text == "float8_e4m3fn") return DType::float8_e4m3;
  if (text == "float8_e4m3" || text == "int4") unsupported(text + " of another library");
  for (int i = 0; i < kNumDTypes; ++i)
    if (text == name(static_cast<DType>(i))) return static_cast<DType>(i);
  unsupported(text_of(dtype));
}

DType to_dtype(nb::handle value) {
  PyObject* p = value.ptr();
  for (int i = 0; i < kNumDTypes; ++i)
    if (dtype_objects[i] == p) return static_cast<DType>(i);
  if (PyUnicode_Check(p)) return dtype_from_name(nb::cast<const char*>(value));
  if (Py_TYPE(p) == Py_TYPE(dtype_objects[0])) return dtype_from_name(text_of(value.attr("name")));
  if (p == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::boolean;
  if (p == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::int64;
  if (p == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::float64;
  if (p == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::complex128;
  // numpy.dtype(None) is float64: never what was meant.
  if (value.is_none()) unsupported("None");
  nb::object converted;
  try {
    converted = numpy().attr("dtype")(value);
  } catch (nb::python_error&) {
    unsupported(nb::repr(value).c_str());
  }
  return dtype_from_numpy(converted);
}

std::optional<DType> to_optional_dtype(nb::handle value) {
  if (value.is_none()) return std::nullopt;
  return to_dtype(value);
}

void bind_dtypes(nb::module_& m) {
  m.def("_register_dtype", &register_dtype, "index"_a, "dtype"_a,
        "The DataType object for one element type; internal.");
  m.def(
      "_dtype_from_numpy", [](nb::handle dtype) { return from_dtype(dtype_from_numpy(dtype)); }, "dtype"_a,
      "The DataType of a numpy.dtype; internal.");
  m.def(
      "_numpy_dtype", [](nb::handle dtype) -> AnyObject { return numpy_dtype(to_dtype(dtype)); }, "dtype"_a,
      "The numpy.dtype that holds a dtype's bits; internal.");
  m.def(
      "result_type",
      [](nb::args arguments) {
        std::optional<DType> found;
        std::optional<ScalarKind> weak;
        for (nb::handle argument : arguments) {
          const Array* array = try_array(argument);
          PyObject* p = argument.ptr();
          if (array == nullptr && (PyBool_Check(p) || PyLong_Check(p) || PyFloat_Check(p) || PyComplex_Check(p))) {
            ScalarKind k = to_scalar("result_type", "argument", argument).kind;
            weak = weak && *weak > k ? *weak : k;
            continue;
          }
          DType dtype = array != nullptr ? array->dtype() : to_dtype(argument);
          found = found ? promote("result_type", *found, dtype) : dtype;
        }
        if (!found) throw ArgumentError("result_type: arguments must include an array or a dtype");
        return from_dtype(weak ? promote_scalar("result_type", *found, *weak) : *found);
      },
      "arguments"_a, nb::sig("def result_type(*arguments: object) -> pygpukit.core.dtypes.DataType"),
      "The dtype an operation on these arrays, dtypes and Python numbers computes in.");
}

// Shapes and numbers

int64_t to_int(const char* op, const char* argument, nb::handle value) {
  PyObject* p = value.ptr();
  if (!PyIndex_Check(p) || PyBool_Check(p)) {
    std::string text = std::string(op) + ": " + argument + " must be an int, got " + class_of(value);
    throw nb::type_error(text.c_str());
  }
  Py_ssize_t result = PyNumber_AsSsize_t(p, PyExc_OverflowError);
  if (result == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
  return result;
}

Dims to_dims(const char* op, nb::handle value) {
  PyObject* p = value.ptr();
  if (PyLong_Check(p) || (PyIndex_Check(p) && !PySequence_Check(p))) return Dims{to_int(op, "shape", value)};
  if (!PyTuple_Check(p) && !PyList_Check(p)) {
    if (PyUnicode_Check(p) || PyBytes_Check(p) || !PySequence_Check(p)) {
      std::string text = std::string(op) + ": shape must be an int or a sequence of ints, got " + class_of(value);
      throw nb::type_error(text.c_str());
    }
    return to_dims(op, nb::steal(PySequence_Tuple(p)));
  }
  Py_ssize_t rank = PySequence_Fast_GET_SIZE(p);
  if (rank > kMaxRank)
    throw ShapeError(op, "shape", "have at most " + std::to_string(kMaxRank) + " dimensions", std::to_string(rank));
  Dims dims;
  for (Py_ssize_t i = 0; i < rank; ++i) dims.push_back(to_int(op, "shape", PySequence_Fast_GET_ITEM(p, i)));
  return dims;
}

IntTuple from_dims(const Dims& dims) {
  nb::tuple result = nb::steal<nb::tuple>(PyTuple_New(dims.rank()));
  for (int i = 0; i < dims.rank(); ++i) PyTuple_SET_ITEM(result.ptr(), i, PyLong_FromLongLong(dims[i]));
  return result;
}

std::optional<Dims> to_optional_axes(const char* op, nb::handle value) {
  if (value.is_none()) return std::nullopt;
  PyObject* p = value.ptr();
  if (!PyTuple_Check(p) && !PyList_Check(p)) return Dims{to_int(op, "axis", value)};
  Py_ssize_t count = PySequence_Fast_GET_SIZE(p);
  if (count > kMaxRank)
    throw ShapeError(op, "axis", "name at most " + std::to_string(kMaxRank) + " axes", std::to_string(count));
  Dims axes;
  for (Py_ssize_t i = 0; i < count; ++i) axes.push_back(to_int(op, "axis", PySequence_Fast_GET_ITEM(p, i)));
  return axes;
}

namespace {

Scalar integer_scalar(const char* op, const char* argument, nb::handle value) {
  int overflow = 0;
  long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) {
    if (number == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
    return Scalar(static_cast<int64_t>(number));
  }
  unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(value.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw ArgumentError(op, argument, "be between -2**63 and 2**64 - 1", text_of(value));
  }
  return Scalar::from_unsigned(large);
}

}  // namespace

Scalar to_scalar(const char* op, const char* argument, nb::handle value) {
  PyObject* p = value.ptr();
  if (PyBool_Check(p)) return Scalar(p == Py_True);
  if (PyLong_Check(p)) return integer_scalar(op, argument, value);
  if (PyFloat_Check(p)) return Scalar(PyFloat_AS_DOUBLE(p));
  if (PyComplex_Check(p)) return Scalar(std::complex<double>(PyComplex_RealAsDouble(p), PyComplex_ImagAsDouble(p)));
  if (is_numpy_scalar(value)) {
    nb::object item = value.attr("item")();
    if (!is_numpy_scalar(item)) return to_scalar(op, argument, item);
    nb::object number = nb::steal(PyNumber_Float(p));  // ml_dtypes, longdouble
    if (number.is_valid()) return Scalar(PyFloat_AS_DOUBLE(number.ptr()));
    PyErr_Clear();
  }
  std::string text = std::string(op) + ": " + argument + " must be a number, got " + class_of(value);
  throw nb::type_error(text.c_str());
}

}  // namespace gpukit::python
