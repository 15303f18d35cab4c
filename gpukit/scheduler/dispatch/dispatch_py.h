// What the bindings of dispatch share.
#pragma once

#include <initializer_list>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/scheduler/dispatch/dispatch_queue.h"

namespace gpukit::python {

using Extent3Tuple = nb::typed<nb::tuple, int, int, int>;
inline Extent3Tuple from_extent3(const scheduler::Extent3& e) {
  return nb::borrow<Extent3Tuple>(nb::make_tuple(e[0], e[1], e[2]));
}
inline std::string text_of(const scheduler::Extent3& e) {
  return "(" + std::to_string(e[0]) + ", " + std::to_string(e[1]) + ", " + std::to_string(e[2]) + ")";
}

/// The shortest text of a number, as Python writes it.
inline std::string text_of(double value) { return nb::repr(nb::float_(value)).c_str(); }
inline std::string text_of(bool value) { return value ? "True" : "False"; }
inline std::string quoted(const std::string& text) { return nb::repr(nb::str(text.c_str(), text.size())).c_str(); }

/// Puts classes of pygpukit.runtime.dispatch on pygpukit.runtime too.
inline void lift(nb::module_& core, const char* from, std::initializer_list<const char*> names) {
  nb::module_ top = runtime_module(core), nested = runtime_module(core, from);
  for (const char* name : names) top.attr(name) = nested.attr(name);
}

}  // namespace gpukit::python
