// A model from its checkpoint: config.json and SafeTensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gpukit/models/llm/causal_transformer.h"
#include "gpukit/models/llm/model_spec.h"

namespace gpukit::llm {

struct LoadOptions {
  std::optional<DType> dtype;     // of activations and dense matrices; empty: as the checkpoint has them
  std::optional<DType> quantize;  // float8_e4m3, int8, int4 or float4_e2m1 for the matrices of the layers
  int64_t group = 0;              // columns of one scale; 0: the format's own (int4: 64, float4_e2m1: 16, else a row)
  bool evictable = false;         // leaves the device as a whole when others need its room (Residence)
  /// Called now and then with the bytes of tensors that are loaded and of all; what it throws ends the loading.
  std::function<void(int64_t done, int64_t total)> progress = {};
  const ModelSpec* spec = nullptr;  // null: found by the names of the tensors, and config.json must agree
};

/// `path`: a .safetensors file, an index of several, a folder, or the name of a model in the Hugging Face cache; its
/// config.json lies beside. q, k and v become one matrix. Embeddings, norms, the router and the head stay dense.
/// FP8 (block scales), AWQ and GPTQ checkpoints are kept as they are. Throws FileError; FormatError naming the file and
/// the tensor; UnsupportedError; ArgumentError.
std::shared_ptr<const CausalTransformer> load_model(const std::string& path, Device device,
                                                    const LoadOptions& options = {});

/// config.json of the folder of `path`. Throws FileError, FormatError, UnsupportedError.
TransformerConfig load_config(const std::string& path);

/// How load_model quantises to `format`. Throws ArgumentError for another one.
QuantizeOptions weight_quantization(DType format, int64_t group, int64_t columns);

}  // namespace gpukit::llm
