#include "gpukit/ops/manipulate/arrange.h"

#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

using ArrayList = nb::typed<nb::list, Array>;

std::vector<Array> to_arrays(const char* op, nb::handle values) {
  if (try_array(values) != nullptr)
    throw nb::type_error((std::string(op) + ": arrays must be a sequence of GPUArrays, got one GPUArray").c_str());
  std::vector<Array> arrays;
  for (nb::handle value : to_items(op, "arrays", values)) arrays.push_back(to_array(op, "arrays", value));
  return arrays;
}

ArrayList to_list(std::vector<Array>&& arrays) {
  nb::list list;
  for (Array& array : arrays) list.append(wrap(std::move(array)));
  return list;
}

void by_diagonal(nb::module_& m, const char* name, Array (*f)(const Array&, int64_t), const char* doc) {
  m.def(
      name,
      [name, f](const ArrayObject& x, int64_t k) {
        const Array& input = to_array(name, "x", x);
        return wrap(in_scope([&] { return f(input, k); }));
      },
      "x"_a, "k"_a = 0, doc);
}

void joining(nb::module_& m, const char* name, Array (*f)(std::span<const Array>), const char* doc) {
  m.def(
      name,
      [name, f](ArraysArg arrays) {
        const std::vector<Array> parts = to_arrays(name, arrays);
        return wrap(in_scope([&] { return f(parts); }));
      },
      "arrays"_a, doc);
}

void at_least_of(nb::module_& m, const char* name, int rank) {
  m.def(
      name, [name, rank](const ArrayObject& x) { return wrap(at_least(to_array(name, "x", x), rank)); }, "x"_a,
      "A view with axes of size 1 put in where there are fewer.");
}

}  // namespace

void bind_arrange(nb::module_& m) {
  by_diagonal(m, "tril", &tril, "A copy with zeros above the k-th diagonal of the last two axes.");
  by_diagonal(m, "triu", &triu, "A copy with zeros below the k-th diagonal of the last two axes.");
  by_diagonal(m, "diag", &diag, "A matrix with x on its k-th diagonal, or a copy of a matrix's k-th diagonal.");
  joining(m, "hstack", &hstack, "Arrays joined along axis 1, 1-D ones along axis 0.");
  joining(m, "vstack", &vstack, "Arrays joined along axis 0; 1-D ones are rows.");
  joining(m, "dstack", &dstack, "Arrays joined along axis 2; those of fewer axes get them as from atleast_3d.");
  at_least_of(m, "atleast_1d", 1);
  at_least_of(m, "atleast_2d", 2);
  at_least_of(m, "atleast_3d", 3);
  m.def(
      "apply_along_axis",
      [](nb::args, nb::kwargs) -> ArrayObject {
        throw UnsupportedError(
            "apply_along_axis: not offered, since it would call Python once a slice; write it with functions that take "
            "axis=, or as a kernel by gp.jit");
      },
      nb::sig("def apply_along_axis(*args: object, **kwargs: object) -> typing.NoReturn"),
      "Not offered: raises UnsupportedError, which says what to use.");
  m.def(
      "meshgrid",
      [](const nb::args& arrays, StringArg indexing) {
        const std::string wanted = to_text("meshgrid", "indexing", indexing);
        if (wanted != "xy" && wanted != "ij") throw ArgumentError("meshgrid", "indexing", "be xy or ij", wanted);
        const std::vector<Array> parts = to_arrays("meshgrid", arrays);
        return to_list(in_scope([&] { return meshgrid(parts, wanted == "ij"); }));
      },
      "arrays"_a, "indexing"_a = "xy",
      nb::sig("def meshgrid(*arrays: GPUArray, indexing: str = 'xy') -> list[GPUArray]"),
      "1-D arrays spread over the axes of a grid; with 'xy' the first two axes change places.");
  m.def(
      "array_split",
      [](const ArrayObject& x, IntsArg indices_or_sections, int64_t axis) {
        const Array& source = to_array("array_split", "x", x);
        if (is_one_int(indices_or_sections))
          return to_list(array_split(source, to_int("array_split", "indices_or_sections", indices_or_sections), axis));
        return to_list(split_at(source, to_ints("array_split", "indices_or_sections", indices_or_sections), axis));
      },
      "x"_a, "indices_or_sections"_a, "axis"_a = 0,
      "Views of parts, the first of which are one longer where they cannot be equal.");
}

}  // namespace gpukit
