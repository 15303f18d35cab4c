// The matrix of a layer, [n, k] with one row for each output: dense or quantised, packed once.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/quantize/quantize.h"

namespace gpukit {

/// What linear multiplies by. Rows lie at multiples of 16 bytes, as the kernels read them fastest; scales go with the
/// quantised values. Immutable: a copy shares the memory.
class Weight {
 public:
  Weight() = default;
  /// A dense matrix of float16, bfloat16, float32 or float64, itself where it lies well (on the CPU also by columns),
  /// else a packed copy. Throws ShapeError, DTypeError.
  explicit Weight(const Array& matrix);
  /// The same, laid out for inputs of few rows: a copy by columns on the CPU, whose product reads it about as fast as
  /// memory gives it.
  static Weight for_few_rows(const Array& matrix);
  /// Quantised values [n, k] (packed ones [n, k / 2]) and their scales, as quantize makes them. Throws ShapeError,
  /// DTypeError, ArgumentError, DeviceError.
  explicit Weight(const Quantized& values);
  /// The quantised values of a dense matrix in `format`, a dtype that quantize() takes.
  static Weight quantize(const Array& matrix, DType format, const QuantizeOptions& options);

  bool defined() const { return parts_.data.defined(); }
  bool is_quantized() const;
  int64_t rows() const { return parts_.data.shape(0); }
  int64_t columns() const;
  DType dtype() const { return parts_.data.dtype(); }  // of the numbers, or of the quantised values
  Device device() const { return parts_.data.device(); }
  /// Bytes of numbers or quantised values, scales and zero points, without what lies between rows.
  int64_t nbytes() const;
  /// The matrix itself where it is dense.
  const Quantized& parts() const { return parts_; }
  /// The numbers, in float16, bfloat16 or float32 for a quantised matrix.
  Array dense(DType dtype) const;

 private:
  Quantized parts_;
};

}  // namespace gpukit
