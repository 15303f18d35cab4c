#include "gpukit/python/element.h"

#include <charconv>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/half.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::python {

namespace {

constexpr int kEdge = 3;            // values shown at each end of an axis
constexpr int64_t kMaxShown = 216;  // values shown in all

template <typename T>
T load(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename T>
std::string real_text(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[48];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += '.';
  return text;
}

/// The fewest digits that round back to the same 16-bit float.
template <typename T, typename Round>
std::string narrow_text(T value, Round&& round) {
  float exact = to_float(value);
  if (std::isnan(exact) || std::isinf(exact)) return real_text(exact);
  for (int digits = 1; digits < 9; ++digits) {
    char buffer[48];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, exact, std::chars_format::general, digits).ptr;
    float back = 0;
    std::from_chars(buffer, end, back);
    if (round(back).bits == value.bits) return real_text(back);
  }
  return real_text(exact);
}

template <typename T>
std::string complex_text(const void* bytes) {
  auto value = load<std::complex<T>>(bytes);
  std::string imaginary = real_text(value.imag());
  return real_text(value.real()) + (imaginary[0] == '-' ? "" : "+") + imaginary + "j";
}

}  // namespace

nb::object element_to_python(DType dtype, const void* bytes) {
  switch (dtype) {
    case DType::boolean: return nb::cast(load<uint8_t>(bytes) != 0);
    case DType::int8: return nb::cast(int{load<int8_t>(bytes)});
    case DType::int16: return nb::cast(int{load<int16_t>(bytes)});
    case DType::int32: return nb::cast(load<int32_t>(bytes));
    case DType::int64: return nb::cast(load<int64_t>(bytes));
    case DType::int4:
    case DType::float4_e2m1:
    case DType::uint8: return nb::cast(int{load<uint8_t>(bytes)});
    case DType::uint16: return nb::cast(int{load<uint16_t>(bytes)});
    case DType::uint32: return nb::cast(load<uint32_t>(bytes));
    case DType::uint64: return nb::cast(load<uint64_t>(bytes));
    case DType::float16: return nb::cast(double{to_float(load<half>(bytes))});
    case DType::bfloat16: return nb::cast(double{to_float(load<bfloat16>(bytes))});
    case DType::float8_e4m3: return nb::cast(double{to_float(load<float8_e4m3>(bytes))});
    case DType::float8_e5m2: return nb::cast(double{to_float(load<float8_e5m2>(bytes))});
    case DType::float32: return nb::cast(double{load<float>(bytes)});
    case DType::float64: return nb::cast(load<double>(bytes));
    case DType::complex64: {
      auto v = load<std::complex<float>>(bytes);
      return nb::steal(PyComplex_FromDoubles(v.real(), v.imag()));
    }
    case DType::complex128: {
      auto v = load<std::complex<double>>(bytes);
      return nb::steal(PyComplex_FromDoubles(v.real(), v.imag()));
    }
  }
  return nb::none();
}

std::string element_text(DType dtype, const void* bytes) {
  switch (dtype) {
    case DType::boolean: return load<uint8_t>(bytes) != 0 ? "True" : "False";
    case DType::int8: return std::to_string(load<int8_t>(bytes));
    case DType::int16: return std::to_string(load<int16_t>(bytes));
    case DType::int32: return std::to_string(load<int32_t>(bytes));
    case DType::int64: return std::to_string(load<int64_t>(bytes));
    case DType::int4:
    case DType::float4_e2m1:
    case DType::uint8: return std::to_string(load<uint8_t>(bytes));
    case DType::uint16: return std::to_string(load<uint16_t>(bytes));
    case DType::uint32: return std::to_string(load<uint32_t>(bytes));
    case DType::uint64: return std::to_string(load<uint64_t>(bytes));
    case DType::float16: return narrow_text(load<half>(bytes), to_half);
    case DType::bfloat16: return narrow_text(load<bfloat16>(bytes), to_bfloat16);
    case DType::float8_e4m3: return real_text(to_float(load<float8_e4m3>(bytes)));
    case DType::float8_e5m2: return real_text(to_float(load<float8_e5m2>(bytes)));
    case DType::float32: return real_text(load<float>(bytes));
    case DType::float64: return real_text(load<double>(bytes));
    case DType::complex64: return complex_text<float>(bytes);
    case DType::complex128: return complex_text<double>(bytes);
  }
  return "?";
}

// repr

namespace {

/// How many values each axis shows at each end; 0 means all of it.
struct Edges {
  int count[kMaxRank] = {};
  Dims shape;  // of what is shown
};

Edges choose_edges(const Dims& shape) {
  Edges edges;
  edges.shape = shape;
  auto cut = [&](int axis, int count) {
    if (shape[axis] <= 2 * count) return;
    edges.count[axis] = count;
    edges.shape[axis] = 2 * count;
  };
  for (int axis = 0; axis < shape.rank(); ++axis) cut(axis, kEdge);
  // Many axes: leading ones show their two ends only.
  for (int axis = 0; axis < shape.rank() && edges.shape.product() > kMaxShown; ++axis) cut(axis, 1);
  return edges;
}

/// Copies the corner blocks of `from` into the dense `to`, axis by axis.
void copy_edges(const Array& to, const Array& from, const Edges& edges, int axis) {
  if (axis == from.ndim()) {
    copy_into(to, from);
    return;
  }
  int count = edges.count[axis];
  if (count == 0) {
    copy_edges(to, from, edges, axis + 1);
    return;
  }
  int64_t size = from.shape(axis);
  copy_edges(to.slice(axis, 0, count, 1), from.slice(axis, 0, count, 1), edges, axis + 1);
  copy_edges(to.slice(axis, count, 2 * count, 1), from.slice(axis, size - count, size, 1), edges, axis + 1);
}

void write_values(std::string& text, const Edges& edges, DType dtype, const std::vector<unsigned char>& values,
                  int axis, int64_t& at) {
  if (axis == edges.shape.rank()) {
    text += element_text(dtype, values.data() + at * itemsize(dtype));
    ++at;
    return;
  }
  text += '[';
  for (int64_t i = 0; i < edges.shape[axis]; ++i) {
    if (i != 0) text += ", ";
    if (edges.count[axis] != 0 && i == edges.count[axis]) text += "..., ";
    write_values(text, edges, dtype, values, axis + 1, at);
  }
  text += ']';
}

std::string shape_text(const Dims& shape) {
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (shape.rank() == 1 ? ",)" : ")");
}

}  // namespace

std::string describe(const Array& array) {
  std::string text = "GPUArray(";
  if (array.size() == 0) {
    text += "[]";
  } else {
    Edges edges = choose_edges(array.shape());
    std::vector<unsigned char> values(static_cast<size_t>(edges.shape.product()) * itemsize(array.dtype()));
    {
      CallScope scope;
      bool whole = edges.shape == array.shape() && array.is_contiguous();
      Array shown = whole ? array : Array::empty(edges.shape, array.dtype(), array.device());
      if (!whole) copy_edges(shown, array, edges, 0);
      to_host(values.data(), shown, "repr");
    }
    int64_t at = 0;
    write_values(text, edges, array.dtype(), values, 0, at);
  }
  bool cpu = array.device().kind == DeviceKind::cpu;
  return text + ", shape=" + shape_text(array.shape()) + ", dtype=" + name(array.dtype()) +
         ", device=" + str(array.device()) + ", backend=" + (cpu ? "simulation" : "native") + ")";
}

}  // namespace gpukit::python
