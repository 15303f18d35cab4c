#include <nanobind/stl/optional.h>

#include <string>
#include <vector>

#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"

namespace gpukit::python {

namespace {

using ArrayList = nb::typed<nb::list, Array>;
using ArrayTuple = nb::typed<nb::tuple, Array, nb::ellipsis>;

/// A list, tuple or other iterable of GPUArrays.
std::vector<Array> to_arrays(const char* op, nb::handle values) {
  if (try_array(values) != nullptr)
    throw nb::type_error((std::string(op) + ": arrays must be a sequence of GPUArrays, got one GPUArray").c_str());
  std::vector<Array> arrays;
  for (nb::handle value : nb::iter(values)) arrays.push_back(to_array(op, "arrays", value));
  return arrays;
}

ArrayList to_list(std::vector<Array>&& arrays) {
  nb::list list;
  for (Array& array : arrays) list.append(wrap(std::move(array)));
  return list;
}

ArrayObject concat_py(ArraysArg arrays, IntArg axis, ArrayArg out) {
  const std::vector<Array> parts = to_arrays("concat", arrays);
  const std::optional<int64_t> along = to_optional_int("concat", "axis", axis);
  return with_out("concat", out, [&](const Array* target) { return concat(parts, along, target); });
}

ArrayObject stack_py(ArraysArg arrays, int64_t axis, ArrayArg out) {
  const std::vector<Array> parts = to_arrays("stack", arrays);
  return with_out("stack", out, [&](const Array* target) { return stack(parts, axis, target); });
}

ArrayList split_py(const ArrayObject& x, IntsArg indices_or_sections, int64_t axis) {
  const Array& source = to_array("split", "x", x);
  if (is_one_int(indices_or_sections))
    return to_list(split(source, to_int("split", "indices_or_sections", indices_or_sections), axis));
  return to_list(split_at(source, to_ints("split", "indices_or_sections", indices_or_sections), axis));
}

ArrayObject repeat_py(const ArrayObject& x, IntsArg repeats, IntArg axis, ArrayArg out) {
  const Array& source = to_array("repeat", "x", x);
  const std::optional<int64_t> along = to_optional_int("repeat", "axis", axis);
  if (is_one_int(repeats)) {
    const int64_t count = to_int("repeat", "repeats", repeats);
    return with_out("repeat", out, [&](const Array* target) { return repeat(source, count, along, target); });
  }
  const std::vector<int64_t> counts = to_ints("repeat", "repeats", repeats);
  return with_out("repeat", out, [&](const Array* target) { return repeat(source, counts, along, target); });
}

ArrayObject tile_py(const ArrayObject& x, IntsArg repetitions, ArrayArg out) {
  const Array& source = to_array("tile", "x", x);
  const Dims counts = to_dims("tile", repetitions, "repetitions");
  return with_out("tile", out, [&](const Array* target) { return tile(source, counts, target); });
}

/// One number for all, one pair for all, or one pair per axis.
std::vector<std::pair<int64_t, int64_t>> to_widths(nb::handle value, int rank) {
  auto pair_of = [](nb::handle item) {
    const std::vector<int64_t> ints = to_ints("pad", "pad_width", item, 2);
    if (ints.size() == 1) return std::pair(ints[0], ints[0]);
    if (ints.size() != 2)
      throw ArgumentError("pad", "pad_width", "hold pairs (before, after)", std::to_string(ints.size()) + " numbers");
    return std::pair(ints[0], ints[1]);
  };
  if (is_one_int(value)) return std::vector(static_cast<size_t>(rank), pair_of(value));
  const nb::tuple items = to_items("pad", "pad_width", value, kMaxRank);
  const size_t count = items.size();
  if (count > 0 && is_one_int(items[0])) return std::vector(static_cast<size_t>(rank), pair_of(items));
  if (count == 1) return std::vector(static_cast<size_t>(rank), pair_of(items[0]));
  std::vector<std::pair<int64_t, int64_t>> widths;
  for (size_t i = 0; i < count; ++i) widths.push_back(pair_of(items[i]));
  return widths;
}

ArrayObject pad_py(const ArrayObject& x, Shown<"pygpukit.typing.PadWidth"> pad_width, const char* mode,
                   NumberArg constant_values, ArrayArg out) {
  const Array& source = to_array("pad", "x", x);
  const auto widths = to_widths(pad_width, source.ndim());
  const Scalar value = to_scalar("pad", "constant_values", constant_values);
  const std::string_view wanted = mode;
  PadMode how = PadMode::constant;
  if (wanted == "edge")
    how = PadMode::edge;
  else if (wanted == "reflect")
    how = PadMode::reflect;
  else if (wanted != "constant")
    throw ArgumentError("pad", "mode", "be constant, edge or reflect", wanted);
  return with_out("pad", out, [&](const Array* target) { return pad(source, widths, how, value, target); });
}

ArrayObject roll_py(const ArrayObject& x, IntsArg shift, AxisArg axis, ArrayArg out) {
  const Array& source = to_array("roll", "x", x);
  const Dims shifts = to_dims("roll", shift, "shift");
  const std::optional<Dims> axes = to_optional_axes("roll", axis);
  return with_out("roll", out, [&](const Array* target) { return roll(source, shifts, axes, target); });
}

ArrayObject permute_py(const ArrayObject& x, AxisArg axes) {
  return wrap(permute_dims(to_array("permute_dims", "x", x), to_dims("permute_dims", axes, "axes")));
}

ArrayObject reshape_py(const ArrayObject& x, ShapeArg shape, std::optional<bool> copy) {
  const Array& source = to_array("reshape", "x", x);
  const Dims wanted = to_dims("reshape", shape);
  return wrap(in_scope([&] { return reshape(source, wanted, copy); }));
}

ArrayObject reshape_copy_py(const ArrayObject& input, ShapeArg new_shape, ArrayArg out) {
  const Array& source = to_array("reshape_copy", "input", input);
  std::optional<Dims> shape;
  if (!new_shape.is_none()) shape = to_dims("reshape_copy", new_shape);
  return with_out("reshape_copy", out, [&](const Array* target) { return reshape_copy(source, shape, target); });
}

void bind_transpose(nb::module_& m, const char* name, const Dims& axes, const char* doc) {
  m.def(
      name,
      [name, axes](const ArrayObject& input, ArrayArg out) {
        const Array& source = to_array(name, "input", input);
        return with_out(name, out, [&](const Array* target) { return transpose_copy(name, source, axes, target); });
      },
      "input"_a, nb::kw_only(), "out"_a = nb::none(), doc);
}

void bind_views(nb::module_& m) {
  m.def("permute_dims", &permute_py, "x"_a, "axes"_a, "A view with the axes in the given order.");
  m.def("permute", &permute_py, "x"_a, "axes"_a, "A view with the axes in the given order.");
  m.def(
      "moveaxis",
      [](const ArrayObject& x, AxisArg source, AxisArg destination) {
        return wrap(moveaxis(to_array("moveaxis", "x", x), to_dims("moveaxis", source, "source"),
                             to_dims("moveaxis", destination, "destination")));
      },
      "x"_a, "source"_a, "destination"_a, "A view with some axes moved to other places.");
  m.def(
      "swapaxes",
      [](const ArrayObject& x, int64_t axis1, int64_t axis2) {
        return wrap(swapaxes(to_array("swapaxes", "x", x), axis1, axis2));
      },
      "x"_a, "axis1"_a, "axis2"_a, "A view with two axes exchanged.");
  m.def(
      "squeeze",
      [](const ArrayObject& x, AxisArg axis) {
        return wrap(squeeze(to_array("squeeze", "x", x), to_optional_axes("squeeze", axis)));
      },
      "x"_a, "axis"_a = nb::none(), "A view without the named axes of size 1, or without any.");
  m.def(
      "expand_dims",
      [](const ArrayObject& x, AxisArg axis) {
        return wrap(expand_dims(to_array("expand_dims", "x", x), to_dims("expand_dims", axis, "axis")));
      },
      "x"_a, "axis"_a = 0, "A view with new axes of size 1.");
  m.def(
      "broadcast_to",
      [](const ArrayObject& x, ShapeArg shape) {
        return wrap(broadcast_to(to_array("broadcast_to", "x", x), to_dims("broadcast_to", shape)));
      },
      "x"_a, "shape"_a, "A view of the shape x broadcasts to; writes that would reach an element twice are refused.");
  m.def(
      "expand",
      [](const ArrayObject& x, ShapeArg shape) {
        return wrap(expand(to_array("expand", "x", x), to_dims("expand", shape)));
      },
      "x"_a, "shape"_a, "broadcast_to where -1 keeps the size of an axis.");
  m.def(
      "broadcast_arrays",
      [](const nb::args& arrays) { return to_list(broadcast_arrays(to_arrays("broadcast_arrays", arrays))); },
      "arrays"_a, nb::sig("def broadcast_arrays(*arrays: GPUArray) -> list[GPUArray]"), "Views of one shape.");
  m.def(
      "flip",
      [](const ArrayObject& x, AxisArg axis) {
        return wrap(flip(to_array("flip", "x", x), to_optional_axes("flip", axis)));
      },
      "x"_a, "axis"_a = nb::none(), "A view with the elements in reverse order along the axes, or along all.");
  m.def("split", &split_py, "x"_a, "indices_or_sections"_a, "axis"_a = 0,
        "Views of equal parts, or of parts ending before each index.");
  m.def(
      "unstack",
      [](const ArrayObject& x, int64_t axis) -> ArrayTuple {
        return nb::tuple(to_list(unstack(to_array("unstack", "x", x), axis)));
      },
      "x"_a, nb::kw_only(), "axis"_a = 0, "Views of the slices along an axis.");
  m.def("reshape", &reshape_py, "x"_a, "shape"_a, nb::kw_only(), "copy"_a = nb::none(),
        "x in another shape, one size of which may be -1: a view where the strides allow it, else a copy.");
  m.def(
      "ravel",
      [](const ArrayObject& x) {
        const Array& source = to_array("ravel", "x", x);
        return wrap(in_scope([&] { return ravel(source); }));
      },
      "x"_a, "x in one dimension: a view where the strides allow it, else a copy.");
}

void bind_copies(nb::module_& m) {
  m.def(
      "flatten",
      [](const ArrayObject& x) {
        const Array& source = to_array("flatten", "x", x);
        return wrap(in_scope([&] { return flatten(source); }));
      },
      "x"_a, "A copy of x in one dimension.");
  m.def(
      "contiguous",
      [](const ArrayObject& x) -> ArrayObject {
        const Array& source = to_array("contiguous", "x", x);
        if (source.is_contiguous()) return x;
        return wrap(in_scope([&] { return contiguous(source); }));
      },
      "x"_a, "x itself when row-major, else a row-major copy.");
  for (const char* name : {"concat", "concatenate"})
    m.def(name, &concat_py, "arrays"_a, "axis"_a.none() = 0, nb::kw_only(), "out"_a = nb::none(),
          "Arrays joined along an axis; with axis=None each is flattened first. dtypes are promoted.");
  m.def("stack", &stack_py, "arrays"_a, "axis"_a = 0, nb::kw_only(), "out"_a = nb::none(),
        "Arrays of one shape joined along a new axis.");
  m.def("repeat", &repeat_py, "x"_a, "repeats"_a, "axis"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
        "Each slice along axis repeated in a row: one count, or one per slice. Without an axis x is flattened.");
  m.def("tile", &tile_py, "x"_a, "repetitions"_a, nb::kw_only(), "out"_a = nb::none(),
        "x as a whole repeated along each axis.");
  m.def("roll", &roll_py, "x"_a, "shift"_a, "axis"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
        "Elements moved along the axes; those that leave come back at the other end.");
  m.def("pad", &pad_py, "x"_a, "pad_width"_a, "mode"_a = "constant", "constant_values"_a = 0, nb::kw_only(),
        "out"_a = nb::none(),
        "x with borders. pad_width: a number, a pair (before, after), or a pair per axis; mode: constant, edge or "
        "reflect.");
}

}  // namespace

}  // namespace gpukit::python

namespace gpukit {

void bind_manipulate(nb::module_& m) {
  using namespace python;
  bind_views(m);
  bind_copies(m);
  nb::module_ compat = compat_module(m);
  compat.def(
      "concat_axis0",
      [](const ArrayObject& a, const ArrayObject& b) {
        const Array &first = to_array("concat_axis0", "a", a), &second = to_array("concat_axis0", "b", b);
        return wrap(in_scope([&] { return concat_axis0(first, second); }));
      },
      "a"_a, "b"_a, "Two arrays of one dtype joined along the first axis.");
  compat.def(
      "repeat_interleave_axis1",
      [](const ArrayObject& input, int64_t repeats) {
        const Array& source = to_array("repeat_interleave_axis1", "input", input);
        return wrap(in_scope([&] { return repeat_interleave_axis1(source, repeats); }));
      },
      "input"_a, "repeats"_a, "[d0, d1, d2] to [d0, d1 * repeats, d2], each slice repeated in a row.");
  bind_transpose(compat, "transpose_3d_021", {1, 0, 2},
                 "A copy with axes 0 and 1 exchanged: [d0, d1, d2] to [d1, d0, d2], despite the name.");
  bind_transpose(compat, "transpose_3d_012", {0, 2, 1},
                 "A copy with axes 1 and 2 exchanged: [d0, d1, d2] to [d0, d2, d1], despite the name.");
  bind_transpose(compat, "transpose_4d_0213", {0, 2, 1, 3}, "A copy with axes 1 and 2 exchanged.");
  bind_transpose(compat, "transpose_4d_0132", {0, 1, 3, 2}, "A copy with axes 2 and 3 exchanged.");
  compat.def("reshape_copy", &reshape_copy_py, "input"_a, "new_shape"_a = nb::none(), nb::kw_only(),
             "out"_a = nb::none(), "A copy in new_shape, or in the shape of out.");
}

}  // namespace gpukit
