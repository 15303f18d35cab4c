#include "gpukit/python/errors.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "gpukit/base/error.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/gil.h"

namespace gpukit::python {

namespace {

/// The module pygpukit.errors; lives as long as the process.
nb::object* classes = nullptr;

void raise(const char* class_name, const nb::object& instance) {
  PyErr_SetObject(nb::object(classes->attr(class_name)).ptr(), instance.ptr());
}

nb::object make(const char* class_name, const char* message) { return classes->attr(class_name)(from_text(message)); }

void raise_argument(const char* class_name, const ArgumentError& e) {
  nb::object instance = make(class_name, e.what());
  instance.attr("op") = e.op;
  instance.attr("argument") = from_text(e.argument);
  instance.attr("needed") = from_text(e.needed);
  instance.attr("given") = from_text(e.given);
  raise(class_name, instance);
}

void translate(const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const DTypeError& e) {
    raise_argument("DTypeError", e);
  } catch (const ShapeError& e) {
    raise_argument("ShapeError", e);
  } catch (const ArgumentError& e) {
    raise_argument("ArgumentError", e);
  } catch (const OutOfRangeError& e) {
    nb::object instance = make("OutOfRangeError", e.what());
    instance.attr("index") = e.index;
    instance.attr("limit") = e.limit;
    raise("OutOfRangeError", instance);
  } catch (const DeviceError& e) {
    raise("DeviceError", make("DeviceError", e.what()));
  } catch (const OutOfMemoryError& e) {
    nb::object instance = make("OutOfMemoryError", e.what());
    instance.attr("asked_bytes") = e.asked_bytes;
    instance.attr("in_use_bytes") = e.in_use_bytes;
    instance.attr("limit_bytes") = e.limit_bytes;
    raise("OutOfMemoryError", instance);
  } catch (const CudaError& e) {
    nb::object instance = make("CudaError", e.what());
    instance.attr("call") = e.call;
    instance.attr("code") = e.code;
    instance.attr("name") = e.name;
    raise("CudaError", instance);
  } catch (const NvrtcError& e) {
    raise("NvrtcError", classes->attr("NvrtcError")(from_text(e.what()), e.code, from_text(e.log)));
  } catch (const FileError& e) {
    raise("FileError", classes->attr("FileError")(e.error_number, from_text(e.what()), from_text(e.path)));
  } catch (const FormatError& e) {
    raise("FormatError", make("FormatError", e.what()));
  } catch (const NotFoundError& e) {
    raise("NotFoundError", make("NotFoundError", e.what()));
  } catch (const ExchangeError& e) {
    raise("ExchangeError", make("ExchangeError", e.what()));
  } catch (const DeadlineError& e) {
    raise("DeadlineError", make("DeadlineError", e.what()));
  } catch (const UnsupportedError& e) {
    raise("UnsupportedError", make("UnsupportedError", e.what()));
  } catch (const Error& e) {
    raise("Error", make("Error", e.what()));
  } catch (const std::bad_cast&) {
    // Their own texts are names of C++.
    PyErr_SetString(PyExc_TypeError, "an argument has a type that this call does not take");
  } catch (const std::length_error&) {
    PyErr_SetString(PyExc_MemoryError, "more elements than memory can hold");
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of host memory");
  }
}

}  // namespace

nb::object to_exception(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const nb::python_error& e) {
    return nb::borrow(e.value());
  } catch (const nb::builtin_exception&) {
    return nb::borrow(PyExc_RuntimeError)(nb::str("a callback gave something else than it should"));
  } catch (const std::exception& e) {
    translate(error);
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  nb::python_error raised;
  return nb::borrow(raised.value());
}

void bind_errors(nb::module_&) {
  classes = new nb::object(nb::module_::import_("pygpukit.errors"));
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    if (pointer == nullptr) park();  // no exception: Python ends the thread, the interpreter has gone
    try {
      translate(pointer);
    } catch (nb::python_error& failed) {
      failed.restore();  // building the exception itself failed: show that
    }
  });
}

}  // namespace gpukit::python
