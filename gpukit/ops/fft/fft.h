// Discrete Fourier transforms of any length along any axes: the fft extension of the array API.
//
// float16, bfloat16 and float32 give complex64, float64 gives complex128. Lengths whose prime factors are 2, 3, 5 and 7
// are transformed directly, others by Bluestein's convolution. `n` cuts the axis or pads it with zeros. A row's bits
// depend on that row and its length alone. Throws DTypeError, ShapeError (length below 1, out), OutOfRangeError (axis).
#pragma once

#include <optional>

#include "gpukit/array/array.h"

namespace gpukit::fft {

/// What the sums are divided by: n on the way back (backward), n on the way there (forward), sqrt(n) both ways (ortho).
enum class Norm { backward, ortho, forward };
/// Throws ArgumentError naming `op`.
Norm norm_from_name(const char* op, std::string_view name);

using Length = std::optional<int64_t>;

Array fft(const Array& x, Length n = {}, int64_t axis = -1, Norm norm = Norm::backward, const Array* out = nullptr);
Array ifft(const Array& x, Length n = {}, int64_t axis = -1, Norm norm = Norm::backward, const Array* out = nullptr);
/// Real input; the n / 2 + 1 frequencies from 0 up.
Array rfft(const Array& x, Length n = {}, int64_t axis = -1, Norm norm = Norm::backward, const Array* out = nullptr);
/// Real output of length n, 2 (m - 1) when not given, from m frequencies. Imaginary parts that a real signal cannot
/// have are ignored.
Array irfft(const Array& x, Length n = {}, int64_t axis = -1, Norm norm = Norm::backward, const Array* out = nullptr);
/// The real spectrum of a signal whose negative half mirrors x, and back.
Array hfft(const Array& x, Length n = {}, int64_t axis = -1, Norm norm = Norm::backward, const Array* out = nullptr);
Array ihfft(const Array& x, Length n = {}, int64_t axis = -1, Norm norm = Norm::backward, const Array* out = nullptr);

using Sizes = std::optional<Dims>;

/// Along several axes, all when not given (the last ones when only sizes are). Real ones treat the last named axis
/// last on the way there's real side: rfftn transforms it first, irfftn last.
Array fftn(const Array& x, const Sizes& s = {}, const Sizes& axes = {}, Norm norm = Norm::backward,
           const Array* out = nullptr);
Array ifftn(const Array& x, const Sizes& s = {}, const Sizes& axes = {}, Norm norm = Norm::backward,
            const Array* out = nullptr);
Array rfftn(const Array& x, const Sizes& s = {}, const Sizes& axes = {}, Norm norm = Norm::backward,
            const Array* out = nullptr);
Array irfftn(const Array& x, const Sizes& s = {}, const Sizes& axes = {}, Norm norm = Norm::backward,
             const Array* out = nullptr);

/// The frequencies of the results for samples `d` apart: 0, 1, ... then the negative ones; and those of rfft.
Array fftfreq(int64_t n, double d = 1.0, DType dtype = DType::float32, std::optional<Device> device = {});
Array rfftfreq(int64_t n, double d = 1.0, DType dtype = DType::float32, std::optional<Device> device = {});
/// Frequency 0 to the middle, and back.
Array fftshift(const Array& x, const Sizes& axes = {}, const Array* out = nullptr);
Array ifftshift(const Array& x, const Sizes& axes = {}, const Array* out = nullptr);

}  // namespace gpukit::fft
