// Types of arguments that bindings convert themselves: handles that the stubs show by what the converters take.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

#include "gpukit/array/array.h"

namespace gpukit::python {

/// The text of a type, as a template parameter.
template <size_t N>
struct TypeText {
  char text[N] = {};
  consteval TypeText(const char (&value)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = value[i];
  }
};

/// Any object, shown as the text. Nothing is checked here: the binding's converter does.
template <TypeText kText>
struct Shown : nanobind::handle {
  static constexpr auto Name = nanobind::detail::const_name(kText.text);
  using nanobind::handle::handle;
  Shown(nanobind::handle value) : nanobind::handle(value) {}
  static bool check_(nanobind::handle) { return true; }
};

// python/pygpukit/typing.py has the definitions; beside each the converter that takes it.
using ShapeArg = Shown<"pygpukit.typing.ShapeLike">;      // to_dims
using AxisArg = Shown<"pygpukit.typing.AxisLike">;        // to_optional_axes, to_dims
using DTypeArg = Shown<"pygpukit.typing.DTypeLike">;      // to_dtype
using DeviceArg = Shown<"pygpukit.typing.DeviceLike">;    // to_device
using StreamArg = Shown<"pygpukit.typing.StreamLike">;    // to_stream
using OperandArg = Shown<"pygpukit.typing.Operand">;      // to_operand
using NumberArg = Shown<"pygpukit.typing.Number">;        // to_scalar
using IndicesArg = Shown<"pygpukit.typing.IndicesLike">;  // integers of a device or the host
using KeyArg = Shown<"pygpukit.typing.Key">;              // x[key]
using BufferArg = Shown<"pygpukit.typing.HostBuffer">;    // PyObject_GetBuffer
using PathArg = Shown<"pygpukit.typing.PathLike">;        // PyOS_FSPath
using ExtentArg = Shown<"pygpukit.typing.Extent">;        // grids and blocks
using IntArg = Shown<"typing.SupportsIndex">;             // to_int
using IntsArg = Shown<"pygpukit.typing.Ints">;            // one int or several
using ArraysArg = Shown<"pygpukit.typing.Arrays">;        // a sequence of GPUArrays
using AnyArg = Shown<"typing.Any">;

/// The same for what is kept or given back.
template <TypeText kText>
using ShownObject = nanobind::typed<nanobind::object, Shown<kText>>;
using CallableObject = ShownObject<"collections.abc.Callable[[], typing.Any]">;

using ArrayArg = nanobind::typed<nanobind::handle, Array>;  // to_array, to_optional_array
using StringArg = nanobind::typed<nanobind::handle, nanobind::str>;
using BoolArg = nanobind::typed<nanobind::handle, bool>;

}  // namespace gpukit::python
