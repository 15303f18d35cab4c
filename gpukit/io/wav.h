// WAV files: PCM of 8, 16, 24 and 32 bits, floats of 32 and 64, plain and extensible headers.
//
// Reading is strict: sizes that disagree, chunks that run past the end, odd formats are FormatErrors that name the file
// and the offset. Chunks that are not about the samples are skipped.
#pragma once

#include <span>
#include <string>

#include "gpukit/array/array.h"

namespace gpukit::io {

struct WavData {
  Array samples;  // float32 [channels, n] on the CPU; integers are scaled to [-1, 1)
  int64_t rate = 0;
};

enum class WavFormat { pcm8, pcm16, pcm24, pcm32, float32, float64 };

/// Throws FileError, FormatError.
WavData read_wav(const std::string& path);
/// The same from memory; `path` names it in errors.
WavData parse_wav(const std::string& path, std::span<const std::byte> bytes);

/// samples: float32 [n] or [channels, n]; waits for those of a GPU. Integers saturate at [-1, 1]; NaN is written as 0.
/// All or nothing: a temporary file, then a rename. Throws FileError, ShapeError, DTypeError, ArgumentError.
void write_wav(const std::string& path, const Array& samples, int64_t rate, WavFormat format = WavFormat::pcm16);
/// `pcm16`, `float32`, ... Throws ArgumentError.
WavFormat wav_format_from_name(std::string_view name);

}  // namespace gpukit::io
