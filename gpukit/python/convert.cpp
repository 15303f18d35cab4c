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

/// Takes the reference to a str. What UTF-8 has no bytes for is escaped.
std::string utf8_of(PyObject* text) {
  const nb::object held = nb::steal(text);
  if (!held.is_valid()) nb::raise_python_error();
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

std::string text_of(nb::handle value) { return utf8_of(PyObject_Str(value.ptr())); }

}  // namespace

std::string shown(nb::handle value) {
  constexpr size_t kMost = 200;
  std::string text = utf8_of(PyObject_Repr(value.ptr()));
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

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
  if (module == nullptr) call_or_park([] { module = nb::module_::import_("numpy").release().ptr(); });
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
  if (PyUnicode_Check(p)) return dtype_from_name(to_text("dtype", "name", value));
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
    unsupported(shown(value));
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

namespace {

void check_int(const char* op, const char* argument, nb::handle value) {
  if (PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr())) return;
  std::string text = std::string(op) + ": " + argument + " must be an int, got " + class_of(value);
  throw nb::type_error(text.c_str());
}

}  // namespace

uint64_t to_uint64(const char* op, const char* argument, nb::handle value) {
  check_int(op, argument, value);
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) nb::raise_python_error();
  const uint64_t result = PyLong_AsUnsignedLongLong(number.ptr());
  if (result == UINT64_MAX && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) nb::raise_python_error();
    PyErr_Clear();
    throw ArgumentError(op, argument, "be 0 to 2^64 - 1", nb::str(number).c_str());
  }
  return result;
}

int64_t to_int(const char* op, const char* argument, nb::handle value) {
  check_int(op, argument, value);
  PyObject* p = value.ptr();
  Py_ssize_t result = PyNumber_AsSsize_t(p, PyExc_OverflowError);
  if (result == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
  return result;
}

std::optional<int64_t> to_optional_int(const char* op, const char* argument, nb::handle value) {
  if (value.is_none()) return std::nullopt;
  return to_int(op, argument, value);
}

bool is_one_int(nb::handle value) {
  PyObject* p = value.ptr();
  if (PyLong_Check(p)) return true;
  if (!PyIndex_Check(p)) return false;
  if (!PySequence_Check(p)) return true;
  // Arrays have both; only one of no dimensions has no length.
  if (PyObject_Size(p) >= 0) return false;
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) nb::raise_python_error();
  PyErr_Clear();
  return true;
}

nb::tuple to_items(const char* op, const char* argument, nb::handle value, size_t limit) {
  PyObject* p = value.ptr();
  const auto check = [&](size_t count) {
    if (count > limit)
      throw ShapeError(op, argument, "have at most " + std::to_string(limit) + " items", std::to_string(count));
  };
  if (PyTuple_Check(p)) {
    check(static_cast<size_t>(PyTuple_GET_SIZE(p)));
    return nb::borrow<nb::tuple>(value);
  }
  if (PyList_Check(p)) {
    check(static_cast<size_t>(PyList_GET_SIZE(p)));
    PyObject* items = PyList_AsTuple(p);
    if (items == nullptr) nb::raise_python_error();
    return nb::steal<nb::tuple>(items);
  }
  const bool text = PyUnicode_Check(p) || PyBytes_Check(p) || PyByteArray_Check(p);
  if (text || (!PySequence_Check(p) && !PyIter_Check(p)))
    throw nb::type_error((std::string(op) + ": " + argument + " must be a sequence, got " + class_of(value)).c_str());
  const Py_ssize_t claimed = PyIter_Check(p) ? 0 : PyObject_Size(p);
  if (claimed < 0) nb::raise_python_error();
  check(static_cast<size_t>(claimed));
  // Item by item: a length may be a lie, and there may be no end.
  nb::list items;
  for (nb::handle item : nb::iter(value)) {
    check(items.size() + 1);
    items.append(item);
  }
  return nb::tuple(items);
}

std::vector<int64_t> to_ints(const char* op, const char* argument, nb::handle value, size_t limit) {
  if (is_one_int(value)) return {to_int(op, argument, value)};
  const nb::tuple items = to_items(op, argument, value, limit);
  std::vector<int64_t> ints;
  ints.reserve(items.size());
  for (nb::handle item : items) ints.push_back(to_int(op, argument, item));
  return ints;
}

Dims to_dims(const char* op, nb::handle value, const char* argument) {
  if (is_one_int(value)) return Dims{to_int(op, argument, value)};
  const nb::tuple items = to_items(op, argument, value, kMaxRank);
  Dims dims;
  for (nb::handle item : items) dims.push_back(to_int(op, argument, item));
  return dims;
}

std::array<int64_t, 3> to_extent(const char* op, const char* argument, nb::handle value) {
  if (is_one_int(value) || !PySequence_Check(value.ptr())) return {to_int(op, argument, value), 1, 1};
  const nb::tuple items = to_items(op, argument, value, 1000);
  if (items.size() < 1 || items.size() > 3)
    throw ArgumentError(op, argument, "be an int or 1 to 3 ints", std::to_string(items.size()) + " ints");
  std::array<int64_t, 3> extent = {1, 1, 1};
  for (size_t i = 0; i < items.size(); ++i) extent[i] = to_int(op, argument, items[i]);
  return extent;
}

std::optional<bool> to_optional_bool(nb::handle value) {
  if (value.is_none()) return std::nullopt;
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) nb::raise_python_error();
  return truth != 0;
}

std::string to_text(const char* op, const char* argument, nb::handle value) {
  if (!PyUnicode_Check(value.ptr()))
    throw nb::type_error((std::string(op) + ": " + argument + " must be a str, got " + class_of(value)).c_str());
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) nb::raise_python_error();
  return {text, static_cast<size_t>(size)};
}

nb::str from_text(std::string_view text) {
  PyObject* decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (decoded == nullptr) nb::raise_python_error();
  return nb::steal<nb::str>(decoded);
}

IntTuple from_dims(const Dims& dims) {
  nb::tuple result = nb::steal<nb::tuple>(PyTuple_New(dims.rank()));
  if (!result.is_valid()) nb::raise_python_error();
  for (int i = 0; i < dims.rank(); ++i) PyTuple_SET_ITEM(result.ptr(), i, PyLong_FromLongLong(dims[i]));
  return result;
}

std::optional<Dims> to_optional_axes(const char* op, nb::handle value) {
  if (value.is_none()) return std::nullopt;
  return to_dims(op, value, "axis");
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
