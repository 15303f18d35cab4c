// Harmonic and percussive parts of spectra, by medians along time and frequency. float32.
#pragma once

#include <utility>

#include "gpukit/array/array.h"

namespace gpukit::audio {

struct SeparationOptions {
  int64_t kernel_size = 31;  // frames, and bins, of a median
  double power = 2.0;        // of the masks; infinite: the larger takes all
  double margin = 1.0;       // by how much a part must exceed the other; above 1 the two do not add up to the whole
};

/// The parts of magnitudes [..., frames, bins]: what a soft mask of the medians along time, and along frequency,
/// leaves. Beyond the edges the spectrum is mirrored. Throws DTypeError, ShapeError, ArgumentError.
std::pair<Array, Array> hpss(const Array& magnitudes, const SeparationOptions& options = {});
Array harmonic(const Array& magnitudes, const SeparationOptions& options = {}, const Array* out = nullptr);
Array percussive(const Array& magnitudes, const SeparationOptions& options = {}, const Array* out = nullptr);

}  // namespace gpukit::audio
