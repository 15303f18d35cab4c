// Paths as arguments of bindings.
#pragma once

#include <string>

#include "gpukit/python/bind.h"

namespace gpukit::python {

/// str, bytes or os.PathLike. Throws TypeError naming op.
inline std::string to_path(const char* op, nb::handle value) {
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) nb::raise_python_error();
  if (PyBytes_Check(path.ptr()))
    return {PyBytes_AS_STRING(path.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(path.ptr()))};
  return to_text(op, "path", path);
}

}  // namespace gpukit::python
