// Whisper's encoder: log-mel to what the decoder listens to.
#pragma once

#include "gpukit/models/asr/whisper_weights.h"

namespace gpukit::asr {

/// mel: float32 [batch, num_mel_bins, 2 * max_source_positions]; the result, in the weights' dtype, is
/// [batch, max_source_positions, d_model]. An item's result does not depend on the others. Throws ShapeError,
/// DTypeError, DeviceError.
Array encode(const WhisperWeights& weights, const Array& mel);

/// One layer over x [batch, positions, d_model] in the weights' dtype. Throws as encode.
Array encode_layer(const WhisperWeights& weights, size_t layer, const Array& x);
/// Throws what a layer throws for an x that does not fit the weights.
void check_layer_input(const char* op, const WhisperWeights& weights, const Array& x);

}  // namespace gpukit::asr
