// What is done to finished speech: joining, loudness. float32 samples [n] on any device.
#pragma once

#include <span>

#include "gpukit/array/array.h"

namespace gpukit::tts {

/// x with its first and last `samples` faded in and out in place (less where it is shorter), so that it joins anything
/// without a click.
void fade_ends(const Array& x, int64_t samples);
/// One after the other with `gap` zeros between. Throws ArgumentError for none, ShapeError, DTypeError, DeviceError.
Array join_audio(std::span<const Array> parts, int64_t gap = 0);
struct Extent {
  int64_t begin, end;  // samples
};
/// Where x is louder than a hundredth of its peak, from the first such sample to the last; all of x where it is zero.
/// Waits.
Extent extent_of_sound(const Array& x);
/// x divided by its peak where that is above 1, in place. On the device.
void limit_peak(const Array& x);
}  // namespace gpukit::tts
