#include "gpukit/ops/sort/sort.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

using Sorting = Array (*)(const Array&, std::optional<int64_t>, bool, const Array*);
using ArrayPair = nb::typed<nb::tuple, Array, Array>;

template <Sorting F>
void sorting(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& x, IntArg axis, bool descending, bool, ArrayArg out) {
        const Array& input = to_array(name, "x", x);
        const std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        return with_out(name, out, [&](const Array* target) { return F(input, along, descending, target); });
      },
      "x"_a, "axis"_a.none() = -1, nb::kw_only(), "descending"_a = false, "stable"_a = true, "out"_a = nb::none(), doc);
}

ArrayPair topk_py(const ArrayObject& x, IntArg k, IntArg axis, bool largest) {
  const Array& input = to_array("topk", "x", x);
  const int64_t count = to_int("topk", "k", k), along = to_int("topk", "axis", axis);
  std::pair<Array, Array> found = in_scope([&] { return topk(input, count, along, largest); });
  return nb::make_tuple(wrap(std::move(found.first)), wrap(std::move(found.second)));
}

ArrayObject searchsorted_py(const ArrayObject& x1, OperandArg x2, StringArg side, ArrayArg sorter, ArrayArg out) {
  const Array& sorted = to_array("searchsorted", "x1", x1);
  const Operand wanted_values = to_operand("searchsorted", "x2", x2);
  const Array* order = to_optional_array("searchsorted", "sorter", sorter);
  const std::string wanted = to_text("searchsorted", "side", side);
  if (wanted != "left" && wanted != "right") throw ArgumentError("searchsorted", "side", "be left or right", wanted);
  return with_out("searchsorted", out, [&](const Array* target) {
    const bool right = wanted == "right";
    if (wanted_values.is_array()) return searchsorted(sorted, *wanted_values.array, right, order, target);
    return searchsorted(sorted, wanted_values.scalar, right, order, target);
  });
}

/// A named tuple of pygpukit.core.results.
nb::object named(const char* type, std::initializer_list<Array*> fields) {
  nb::list values;
  for (Array* field : fields) values.append(wrap(std::move(*field)));
  return nb::module_::import_("pygpukit.core.results").attr(type)(*values);
}

nb::object unique_py(const ArrayObject& x, bool index, bool inverse, bool counts) {
  const Array& input = to_array("unique", "x", x);
  if (!index && !inverse && !counts) return wrap(in_scope([&] { return unique_values(input); }));
  Unique found = in_scope([&] { return unique(input); });
  nb::list parts;
  parts.append(wrap(std::move(found.values)));
  if (index) parts.append(wrap(std::move(found.indices)));
  if (inverse) parts.append(wrap(std::move(found.inverse)));
  if (counts) parts.append(wrap(std::move(found.counts)));
  return nb::tuple(parts);
}

template <typename F>
void unique_part(nb::module_& m, const char* name, const char* signature, const char* doc, F&& convert) {
  m.def(
      name,
      [name, convert](const ArrayObject& x) {
        const Array& input = to_array(name, "x", x);
        return convert(in_scope([&] { return unique(input); }));
      },
      "x"_a, nb::sig(signature), doc);
}

}  // namespace

void bind_sort(nb::module_& m) {
  sorting<&sort>(m, "sort",
                 "x in order along an axis; axis=None flattens it. Stable; NaN comes last, or first when descending.");
  sorting<&argsort>(m, "argsort", "Where the elements of sort() come from, as int64.");
  m.def("topk", &topk_py, "x"_a, "k"_a, nb::kw_only(), "axis"_a = -1, "largest"_a = true,
        "(values, indices) of the k largest elements along an axis in order; largest=False gives the smallest.");
  m.def("searchsorted", &searchsorted_py, "x1"_a, "x2"_a, nb::kw_only(), "side"_a = "left", "sorter"_a = nb::none(),
        "out"_a = nb::none(),
        "Where each of x2 would go into the 1-D x1 to keep it in order, as int64. sorter is an argsort of x1.");
  unique_part(m, "unique_all", "def unique_all(x: GPUArray) -> pygpukit.core.results.UniqueAll",
              "(values, indices, inverse_indices, counts) of the different values, in order. Waits for the device.",
              [](Unique u) {
                return named("UniqueAll", {&u.values, &u.indices, &u.inverse, &u.counts});
              });
  unique_part(m, "unique_counts", "def unique_counts(x: GPUArray) -> pygpukit.core.results.UniqueCounts",
              "(values, counts) of the different values, in order. Waits for the device.", [](Unique u) {
                return named("UniqueCounts", {&u.values, &u.counts});
              });
  unique_part(m, "unique_inverse", "def unique_inverse(x: GPUArray) -> pygpukit.core.results.UniqueInverse",
              "(values, inverse_indices): x equals values[inverse_indices]. Waits for the device.", [](Unique u) {
                return named("UniqueInverse", {&u.values, &u.inverse});
              });
  m.def(
      "unique_values",
      [](const ArrayObject& x) {
        const Array& input = to_array("unique_values", "x", x);
        return wrap(in_scope([&] { return unique_values(input); }));
      },
      "x"_a, "The different values in order; every NaN is one of its own. Waits for the device.");
  m.def("unique", &unique_py, "x"_a, nb::kw_only(), "return_index"_a = false, "return_inverse"_a = false,
        "return_counts"_a = false,
        nb::sig("def unique(x: GPUArray, *, return_index: bool = False, return_inverse: bool = False, "
                "return_counts: bool = False) -> typing.Any"),
        "unique_values(x), or with any of the others a tuple of it, the first indices, the inverse and the counts.");
  m.def(
      "isin",
      [](const ArrayObject& x1, const ArrayObject& x2, bool invert) {
        const Array& x = to_array("isin", "x1", x1);
        const Array& values = to_array("isin", "x2", x2);
        return wrap(in_scope([&] { return isin(x, values, invert); }));
      },
      "x1"_a, "x2"_a, nb::kw_only(), "invert"_a = false,
      "Whether each element of x1 occurs in x2, or does not where invert is true.");
}

}  // namespace gpukit
