// New arrays by value: constants, the identity, sequences.
// `device` is the default device when not given. Each throws ShapeError for a negative extent, OutOfMemoryError, and
// Error inside a graph capture, because it allocates.
#pragma once

#include <complex>
#include <optional>

#include "gpukit/array/array.h"
#include "gpukit/base/scalar.h"

namespace gpukit {

/// Uninitialised.
Array empty(const Dims& shape, DType dtype = DType::float32, std::optional<Device> device = {});
Array zeros(const Dims& shape, DType dtype = DType::float32, std::optional<Device> device = {});
Array ones(const Dims& shape, DType dtype = DType::float32, std::optional<Device> device = {});
/// Without a dtype: bool, int64, float32 or complex64 by the kind of `value`.
/// Throws ArgumentError when an integer dtype cannot hold it.
Array full(const Dims& shape, const Scalar& value, std::optional<DType> dtype = {}, std::optional<Device> device = {});

/// Row-major, with the shape and, unless given, the dtype and device of `other`.
Array empty_like(const Array& other, std::optional<DType> dtype = {}, std::optional<Device> device = {});
Array zeros_like(const Array& other, std::optional<DType> dtype = {}, std::optional<Device> device = {});
Array ones_like(const Array& other, std::optional<DType> dtype = {}, std::optional<Device> device = {});
Array full_like(const Array& other, const Scalar& value, std::optional<DType> dtype = {},
                std::optional<Device> device = {});

/// Ones where column - row == k, zeros elsewhere.
Array eye(int64_t n_rows, std::optional<int64_t> n_cols = {}, int64_t k = 0, DType dtype = DType::float32,
          std::optional<Device> device = {});

/// start, start + step, ... below stop (above it for a negative step). Element i is start + i * step, exact when all
/// three and the dtype are integers, else in float64 and rounded (for integers: truncated) once.
/// Without a dtype: int64 for integers, float32 otherwise. Throws ArgumentError for step 0, values that are not finite,
/// or an element the dtype cannot hold; DTypeError for a dtype that is neither integer nor float.
Array arange(const Scalar& start, const Scalar& stop, const Scalar& step = Scalar(1), std::optional<DType> dtype = {},
             std::optional<Device> device = {});

/// `num` evenly spaced values from start to stop, both exact; without `endpoint` stop is left out. In float64, rounded
/// once. Float and complex dtypes only; float32 when not given.
Array linspace(double start, double stop, int64_t num, std::optional<DType> dtype = {}, bool endpoint = true,
               std::optional<Device> device = {});
/// The same between complex numbers, real and imaginary parts each by themselves; complex64 when no dtype is given.
Array linspace(std::complex<double> start, std::complex<double> stop, int64_t num, std::optional<DType> dtype = {},
               bool endpoint = true, std::optional<Device> device = {});

namespace cpu {
void sequence(const Array& out, int64_t start, int64_t step);
void sequence(const Array& out, double start, double step, const double* last);
}  // namespace cpu
namespace cuda {
void sequence(const Array& out, int64_t start, int64_t step);
void sequence(const Array& out, double start, double step, const double* last);
}  // namespace cuda

}  // namespace gpukit
