// What the array standard asks about dtypes and shapes: finfo, iinfo, isdtype, can_cast, broadcast_shapes.
#include <nanobind/stl/string.h>

#include <limits>
#include <string_view>

#include "gpukit/base/error.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

struct FloatInfo {
  DType dtype;
  double eps, max, smallest_normal;
};

struct IntegerInfo {
  DType dtype;
  int bits() const { return 8 * itemsize(dtype); }
};

/// A dtype, or that of an array.
DType dtype_of(nb::handle value) {
  const Array* array = try_array(value);
  return array != nullptr ? array->dtype() : to_dtype(value);
}

FloatInfo finfo(nb::handle type) {
  const DType dtype = real_of(dtype_of(type));
  switch (dtype) {
    case DType::float16: return {dtype, 0x1p-10, 65504, 0x1p-14};
    case DType::bfloat16: return {dtype, 0x1p-7, 0x1.fep127, 0x1p-126};
    case DType::float32: return {dtype, 0x1p-23, std::numeric_limits<float>::max(), 0x1p-126};
    case DType::float64: return {dtype, 0x1p-52, std::numeric_limits<double>::max(), 0x1p-1022};
    default: throw DTypeError("finfo", "type", "be a float or complex dtype", name(dtype));
  }
}

IntegerInfo iinfo(nb::handle type) {
  const DType dtype = dtype_of(type);
  if (!is_integer(dtype)) throw DTypeError("iinfo", "type", "be an integer dtype", name(dtype));
  return {dtype};
}

bool is_of_kind(DType dtype, std::string_view kind) {
  if (kind == "bool") return dtype == DType::boolean;
  if (kind == "signed integer") return is_signed_integer(dtype);
  if (kind == "unsigned integer") return is_unsigned_integer(dtype);
  if (kind == "integral") return is_integer(dtype);
  if (kind == "real floating") return is_floating(dtype);
  if (kind == "complex floating") return is_complex(dtype);
  if (kind == "numeric") return is_integer(dtype) || is_floating(dtype) || is_complex(dtype);
  throw ArgumentError(
      "isdtype", "kind",
      "be bool, signed integer, unsigned integer, integral, real floating, complex floating, numeric, a "
      "dtype or a tuple of them",
      kind);
}

bool isdtype(nb::handle dtype, nb::handle kind) {
  const DType type = to_dtype(dtype);
  if (PyTuple_Check(kind.ptr())) {
    for (nb::handle one : nb::borrow<nb::tuple>(kind))
      if (isdtype(dtype, one)) return true;
    return false;
  }
  if (PyUnicode_Check(kind.ptr())) return is_of_kind(type, to_text("isdtype", "kind", kind));
  return type == to_dtype(kind);
}

bool can_cast(nb::handle from, nb::handle to) {
  const DType source = dtype_of(from), target = to_dtype(to);
  if (source == target) return true;
  if (is_storage_only(source) || is_storage_only(target)) return false;
  try {
    return promote("can_cast", source, target) == target;
  } catch (const DTypeError&) {
    return false;  // no common dtype
  }
}

}  // namespace

void bind_dtype_info(nb::module_& m) {
  nb::class_<FloatInfo>(m, "finfo", "Limits of a float dtype, or of the parts of a complex one.")
      .def(
          "__init__",
          [](FloatInfo* self, Shown<"pygpukit.typing.DTypeLike | GPUArray"> type) {
            new (self) FloatInfo(finfo(type));
          },
          "type"_a)
      .def_prop_ro("bits", [](const FloatInfo& i) { return 8 * itemsize(i.dtype); })
      .def_ro("eps", &FloatInfo::eps, "The distance from 1 to the next number.")
      .def_ro("max", &FloatInfo::max)
      .def_prop_ro("min", [](const FloatInfo& i) { return -i.max; })
      .def_ro("smallest_normal", &FloatInfo::smallest_normal)
      .def_prop_ro("dtype", [](const FloatInfo& i) { return from_dtype(i.dtype); })
      .def("__repr__", [](const FloatInfo& i) { return std::string("finfo(") + name(i.dtype) + ")"; });
  nb::class_<IntegerInfo>(m, "iinfo", "Limits of an integer dtype.")
      .def(
          "__init__",
          [](IntegerInfo* self, Shown<"pygpukit.typing.DTypeLike | GPUArray"> type) {
            new (self) IntegerInfo(iinfo(type));
          },
          "type"_a)
      .def_prop_ro("bits", &IntegerInfo::bits)
      .def_prop_ro(
          "max",
          [](const IntegerInfo& i) { return ~uint64_t{0} >> (64 - i.bits() + (is_signed_integer(i.dtype) ? 1 : 0)); })
      .def_prop_ro(
          "min",
          [](const IntegerInfo& i) { return is_signed_integer(i.dtype) ? INT64_MIN >> (64 - i.bits()) : int64_t{0}; })
      .def_prop_ro("dtype", [](const IntegerInfo& i) { return from_dtype(i.dtype); })
      .def("__repr__", [](const IntegerInfo& i) { return std::string("iinfo(") + name(i.dtype) + ")"; });
  m.def(
      "isdtype", [](DTypeArg dtype, AnyArg kind) { return isdtype(dtype, kind); }, "dtype"_a, "kind"_a,
      "Whether a dtype is of a kind of the array standard, is another dtype, or is any of a tuple of these.");
  m.def(
      "can_cast", [](Shown<"pygpukit.typing.DTypeLike | GPUArray"> from, DTypeArg to) { return can_cast(from, to); },
      "from_"_a, "to"_a, "Whether promotion of the two dtypes gives `to`.");
  m.def(
      "broadcast_shapes",
      [](const nb::args& shapes) {
        Dims common;
        for (nb::handle shape : shapes)
          common = gpukit::broadcast_shapes("broadcast_shapes", common, to_dims("broadcast_shapes", shape));
        return from_dims(common);
      },
      "shapes"_a, nb::sig("def broadcast_shapes(*shapes: pygpukit.typing.ShapeLike) -> tuple[int, ...]"),
      "The shape that arrays of these shapes broadcast to.");
}

}  // namespace gpukit
