// Shared by the bindings of speech recognition.
#pragma once

#include <memory>

#include "gpukit/io/model_path.h"
#include "gpukit/models/asr/whisper_weights.h"
#include "gpukit/python/bind.h"

namespace gpukit::asr {

struct PyEncoder {
  std::shared_ptr<const WhisperWeights> weights;
};
struct PyDecoder {
  std::shared_ptr<const WhisperWeights> weights;
};

/// What is known without the files beside the weights.
WhisperFiles files_of(const WhisperConfig& config);
WhisperLoadOptions to_load_options(nb::handle device, nb::handle dtype, nb::handle quantize);

}  // namespace gpukit::asr
