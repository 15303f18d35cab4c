// Discrete convolution and correlation of two sequences, by NumPy's rules.
//
// Short sequences, and integers, are sums of products (matmul's: exact for integers); long ones of floats and complex
// numbers go by Fourier transforms, which one it is depends on the lengths and dtypes alone. dtypes are promoted.
// Throws ShapeError (not 1-D, empty), DTypeError, DeviceError.
#pragma once

#include <string_view>

#include "gpukit/array/array.h"

namespace gpukit {

/// All n + m - 1 sums, the middle max(n, m) ones, or the |n - m| + 1 for which the sequences overlap wholly.
enum class ConvolveMode { full, same, valid };
/// Throws ArgumentError naming `op`.
ConvolveMode convolve_mode(const char* op, std::string_view name);

/// sum over j of a[j] v[k - j].
Array convolve(const Array& a, const Array& v, ConvolveMode mode = ConvolveMode::full);
/// sum over j of a[j + k] conj(v[j]).
Array correlate(const Array& a, const Array& v, ConvolveMode mode = ConvolveMode::valid);

}  // namespace gpukit
