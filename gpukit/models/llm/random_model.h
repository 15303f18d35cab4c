// Models with random weights, for measurements: speed follows from shapes and formats alone.
#pragma once

#include <memory>

#include "gpukit/models/llm/load.h"

namespace gpukit::llm {

/// A model of the config's family with weights drawn on the device, of a size that keeps activations near 1.
/// options.dtype: float32 when empty; quantize and group are as load_model has them, spec is not read. The same seed
/// gives the same model. Throws ArgumentError, DTypeError, UnsupportedError.
std::shared_ptr<const CausalTransformer> random_model(const TransformerConfig& config, Device device,
                                                      const LoadOptions& options = {}, uint64_t seed = 0);

}  // namespace gpukit::llm
