// Numbers of bytes as arguments: an int, or a text such as "16MB".
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

#include "gpukit/base/byte_size.h"
#include "gpukit/base/error.h"
#include "gpukit/python/arguments.h"

namespace gpukit::python {

/// What a text says. `what` is `function: argument`. Throws ArgumentError for one that is no size.
inline int64_t bytes_of_text(const char* what, const std::string& text) {
  const std::optional<int64_t> bytes = read_byte_size(text);
  if (!bytes)
    throw ArgumentError(std::string(what) + " must be a number of bytes or a text such as '16MB' or '1.5 GiB', got '" +
                        text + "'");
  return *bytes;
}

/// A parameter of a binding that becomes an int64_t where one is wanted.
template <TypeText kWhat>
struct Bytes {
  int64_t number = 0;
  std::optional<std::string> text;
  operator int64_t() const { return text ? bytes_of_text(kWhat.text, *text) : number; }
};

template <TypeText kWhat>
std::optional<int64_t> to_bytes(const std::optional<Bytes<kWhat>>& given) {
  return given ? std::optional<int64_t>(static_cast<int64_t>(*given)) : std::nullopt;
}

}  // namespace gpukit::python

namespace nanobind::detail {

template <gpukit::python::TypeText kWhat>
struct type_caster<gpukit::python::Bytes<kWhat>> {
  NB_TYPE_CASTER(gpukit::python::Bytes<kWhat>, const_name("int | str"))

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    if (PyUnicode_Check(source.ptr())) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
      if (text == nullptr) return PyErr_Clear(), false;
      value.text = std::string(text, static_cast<size_t>(size));
      return true;
    }
    make_caster<int64_t> number;
    if (!number.from_python(source, flags, cleanup)) return false;
    value.number = number.value;
    return true;
  }
  static handle from_cpp(const gpukit::python::Bytes<kWhat>& given, rv_policy, cleanup_list*) noexcept {
    return PyLong_FromLongLong(given.number);
  }
};

}  // namespace nanobind::detail
