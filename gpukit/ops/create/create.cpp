#include "gpukit/ops/create/create.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit {
namespace {

Device device_or_default(std::optional<Device> device) { return device ? *device : runtime::default_device(); }

DType dtype_of(const Scalar& value) {
  switch (value.kind) {
    case ScalarKind::boolean: return DType::boolean;
    case ScalarKind::integer: return value.is_unsigned_above ? DType::uint64 : DType::int64;
    case ScalarKind::real: return DType::float32;
    default: return DType::complex64;
  }
}

Array filled(Array out, const Scalar& value) {
  if (out.size() > 0) fill(out, value);
  return out;
}

Array zeroed(Array out) {
  if (out.size() > 0) runtime::fill(write(out), 1, 0, static_cast<size_t>(out.nbytes()));
  return out;
}

Array allocate(const char* op, const Dims& shape, DType dtype, std::optional<Device> device) {
  checked_bytes(op, shape, itemsize(dtype));
  return Array::empty(shape, dtype, device_or_default(device));
}

Array allocate_like(const char* op, const Array& other, std::optional<DType> dtype, std::optional<Device> device) {
  return allocate(op, other.shape(), dtype.value_or(other.dtype()), device ? *device : other.device());
}

bool is_whole(const Scalar& s) { return s.kind == ScalarKind::boolean || s.kind == ScalarKind::integer; }

void check_real(const char* argument, const Scalar& s) {
  if (s.kind == ScalarKind::complex) throw ArgumentError("arange", argument, "be a real number", "a complex one");
  if (!std::isfinite(s.real)) throw ArgumentError("arange", argument, "be finite", std::to_string(s.real));
}

[[noreturn]] void too_long() { throw ShapeError("arange: the sequence must have less than 2^63 elements"); }

bool is_negative(const Scalar& s) { return s.integer < 0 && !s.is_unsigned_above; }

/// Of integers up to 2^64 - 1.
bool is_less(const Scalar& a, const Scalar& b) {
  return a.is_unsigned_above == b.is_unsigned_above ? a.integer < b.integer : b.is_unsigned_above;
}

int64_t whole_count(const Scalar& start, const Scalar& stop, const Scalar& step) {
  if (start.is_unsigned_above || stop.is_unsigned_above)
    for (const Scalar* s : {&start, &stop})
      if (is_negative(*s))
        throw ArgumentError("arange", s == &start ? "start" : "stop", "not be negative beside 2^63 and more",
                            std::to_string(s->integer));
  const bool down = is_negative(step);
  const Scalar &low = down ? stop : start, &high = down ? start : stop;
  if (!is_less(low, high)) return 0;
  // The differences that are left always fit uint64; the step's magnitude too.
  const uint64_t span = static_cast<uint64_t>(high.integer) - static_cast<uint64_t>(low.integer);
  const uint64_t size = down ? uint64_t{0} - static_cast<uint64_t>(step.integer) : static_cast<uint64_t>(step.integer);
  const uint64_t count = (span - 1) / size + 1;
  if (count > INT64_MAX) too_long();
  return static_cast<int64_t>(count);
}

int64_t real_count(double start, double stop, double step) {
  const double count = std::ceil((stop - start) / step);
  if (!(count < 0x1p62)) too_long();
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

template <typename... Args>
void sequence(const Array& out, Args... args) {
  if (out.size() == 0) return;
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::sequence(out, args...); break;
    case DeviceKind::cuda: cuda::sequence(out, args...); break;
  }
}

}  // namespace

Array empty(const Dims& shape, DType dtype, std::optional<Device> device) {
  return allocate("empty", shape, dtype, device);
}

Array zeros(const Dims& shape, DType dtype, std::optional<Device> device) {
  return zeroed(allocate("zeros", shape, dtype, device));
}

Array ones(const Dims& shape, DType dtype, std::optional<Device> device) {
  return filled(allocate("ones", shape, dtype, device), 1);
}

Array full(const Dims& shape, const Scalar& value, std::optional<DType> dtype, std::optional<Device> device) {
  const DType chosen = dtype ? *dtype : dtype_of(value);
  to_element("full", value, chosen);  // raises before anything is allocated, and for empty shapes too
  return filled(allocate("full", shape, chosen, device), value);
}

Array empty_like(const Array& other, std::optional<DType> dtype, std::optional<Device> device) {
  return allocate_like("empty_like", other, dtype, device);
}

Array zeros_like(const Array& other, std::optional<DType> dtype, std::optional<Device> device) {
  return zeroed(allocate_like("zeros_like", other, dtype, device));
}

Array ones_like(const Array& other, std::optional<DType> dtype, std::optional<Device> device) {
  return filled(allocate_like("ones_like", other, dtype, device), 1);
}

Array full_like(const Array& other, const Scalar& value, std::optional<DType> dtype, std::optional<Device> device) {
  to_element("full_like", value, dtype.value_or(other.dtype()));
  return filled(allocate_like("full_like", other, dtype, device), value);
}

Array eye(int64_t n_rows, std::optional<int64_t> n_cols, int64_t k, DType dtype, std::optional<Device> device) {
  const int64_t columns = n_cols.value_or(n_rows);
  Array out = zeroed(allocate("eye", {n_rows, columns}, dtype, device));
  if (k <= -n_rows || k >= columns) return out;
  const int64_t row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
  const int64_t length = std::min(n_rows - row, columns - column);
  const int64_t offset = out.offset_bytes() + (row * columns + column) * itemsize(dtype);
  fill(Array(out.storage(), dtype, {length}, {columns + 1}, offset), 1);
  return out;
}

Array arange(const Scalar& start, const Scalar& stop, const Scalar& step, std::optional<DType> dtype,
             std::optional<Device> device) {
  check_real("start", start);
  check_real("stop", stop);
  check_real("step", step);
  const bool whole = is_whole(start) && is_whole(stop) && is_whole(step);
  const DType chosen = dtype ? *dtype : whole ? DType::int64 : DType::float32;
  if (!is_integer(chosen) && !is_floating(chosen))
    throw DTypeError("arange", "dtype", "be an integer or float dtype", name(chosen));
  if (step.real == 0) throw ArgumentError("arange", "step", "not be zero", "0");

  const int64_t count = whole ? whole_count(start, stop, step) : real_count(start.real, stop.real, step.real);
  if (whole && is_integer(chosen)) {
    if (count > 0) {
      to_element("arange", start, chosen);
      // The last element lies between start and stop; only the product on the way to it may wrap around.
      const uint64_t distance = static_cast<uint64_t>(count - 1) * static_cast<uint64_t>(step.integer);
      const uint64_t last = static_cast<uint64_t>(start.integer) + distance;
      const bool above = start.is_unsigned_above || stop.is_unsigned_above;
      to_element("arange", above ? Scalar::from_unsigned(last) : Scalar(static_cast<int64_t>(last)), chosen);
    }
    Array out = allocate("arange", {count}, chosen, device);
    sequence(out, start.integer, step.integer);
    return out;
  }
  if (count > 0 && is_integer(chosen)) {
    to_element("arange", start, chosen);
    to_element("arange", Scalar(start.real + static_cast<double>(count - 1) * step.real), chosen);
  }
  Array out = allocate("arange", {count}, chosen, device);
  sequence(out, start.real, step.real, static_cast<const double*>(nullptr));
  return out;
}

Array linspace(double start, double stop, int64_t num, std::optional<DType> dtype, bool endpoint,
               std::optional<Device> device) {
  if (num < 0) throw ArgumentError("linspace", "num", "not be negative", std::to_string(num));
  const DType chosen = dtype.value_or(DType::float32);
  if (is_complex(chosen)) return linspace(std::complex(start), std::complex(stop), num, chosen, endpoint, device);
  if (!is_floating(chosen)) throw DTypeError("linspace", "dtype", "be a float or complex dtype", name(chosen));
  Array out = allocate("linspace", {num}, chosen, device);
  const int64_t intervals = endpoint ? num - 1 : num;
  const double step = intervals > 0 ? (stop - start) / static_cast<double>(intervals) : 0.0;
  sequence(out, start, step, endpoint && num > 1 ? &stop : nullptr);
  return out;
}

Array linspace(std::complex<double> start, std::complex<double> stop, int64_t num, std::optional<DType> dtype,
               bool endpoint, std::optional<Device> device) {
  if (num < 0) throw ArgumentError("linspace", "num", "not be negative", std::to_string(num));
  const DType chosen = dtype.value_or(DType::complex64);
  if (!is_complex(chosen)) throw DTypeError("linspace", "dtype", "be complex for complex bounds", name(chosen));
  const Array out = allocate("linspace", {num}, chosen, device);
  const DType part = chosen == DType::complex64 ? DType::float32 : DType::float64;
  copy_into(real(out), linspace(start.real(), stop.real(), num, part, endpoint, out.device()));
  copy_into(imag(out), linspace(start.imag(), stop.imag(), num, part, endpoint, out.device()));
  return out;
}

}  // namespace gpukit
