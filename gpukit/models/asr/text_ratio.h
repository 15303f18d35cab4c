// How far a text can be compressed: what repeats itself was heard wrongly.
#pragma once

#include <string_view>

namespace gpukit::asr {

/// Bytes of the text by bytes of what zlib would make of it: its matches and code lengths are followed, and its headers
/// estimated, so that the ratio lies within a tenth of zlib's. 1 for no text.
double compression_ratio(std::string_view text);

}  // namespace gpukit::asr
