// An argument that is an array or a weak number, and checks every op uses.
#pragma once

#include <span>
#include <string_view>

#include "gpukit/array/array.h"
#include "gpukit/base/error.h"
#include "gpukit/base/scalar.h"

namespace gpukit {

/// Borrowed: the array must outlive the call.
struct Operand {
  const Array* array = nullptr;
  Scalar scalar;
  Operand(const Array& a) : array(&a) {}
  Operand(const Scalar& s) : scalar(s) {}
  Operand(bool v) : scalar(v) {}
  Operand(int v) : scalar(v) {}
  Operand(int64_t v) : scalar(v) {}
  Operand(double v) : scalar(v) {}
  bool is_array() const { return array != nullptr; }
};

/// For launch: the use of an array that may not be there.
inline memory::Use read_if(const Array& a) { return a.defined() ? read(a) : memory::Use{}; }
inline memory::Use write_if(const Array& a) { return a.defined() ? write(a) : memory::Use{}; }

/// Throws DeviceError: `add: b is on cpu, a is on cuda:0; move one with x.to(device)`.
void check_same_device(const char* op, const Array& a, const Array& b);
/// Throws ShapeError: `rmsnorm: gamma must have shape [8], got [7]`.
void check_shape(const char* op, const char* argument, const Array& a, const Dims& shape);
void check_ndim(const char* op, const char* argument, const Array& a, int ndim);
/// Throws DTypeError: `exp: input must have a float dtype, got int32`.
void check_floating(const char* op, const char* argument, const Array& a);
void check_dtype(const char* op, const char* argument, const Array& a, DType dtype);
void check_arithmetic(const char* op, const char* argument, const Array& a);  // not float8, not packed
[[noreturn]] void unsupported_dtype(const char* op, const char* argument, DType dtype, const char* needed);

/// The result array: `*out` after its shape, dtype, device and overlap were checked, or a fresh one when `out` is null.
/// Throws ShapeError, DTypeError, DeviceError, and ArgumentError for an `out` with internal overlap.
Array result(const char* op, const Array* out, const Dims& shape, DType dtype, Device device);

/// Any byte in common by extent, the very same view included.
bool may_share_memory(const Array& a, const Array& b);
/// `b` is `a` in another shape or layout, not a copy of it: both begin at one place of one storage.
bool begin_together(const Array& a, const Array& b);
/// No element lies in both: their bytes are apart, or they are parts of one grid, as heads of one array are. False
/// also where that is not plain to see.
bool lie_apart(const Array& a, const Array& b);
/// out's memory meets an input in another layout: compute into a temporary and copy. False for null or disjoint.
bool must_buffer(const Array& out, std::initializer_list<const Array*> inputs);

}  // namespace gpukit
