// Whisper's weights, as its layers take them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpukit/io/safetensors.h"
#include "gpukit/models/asr/whisper_config.h"
#include "gpukit/ops/matmul/weight.h"

namespace gpukit::asr {

struct NormWeights {
  Array gamma, beta;
};
struct LinearWeights {
  Weight weight;
  Array bias;
};

struct EncoderLayer {
  NormWeights attention_norm, mlp_norm;
  LinearWeights qkv, out, fc1, fc2;  // qkv: rows of q, then k, then v
};
struct DecoderLayer : EncoderLayer {
  NormWeights cross_norm;
  LinearWeights cross_q, cross_kv, cross_out;
};

struct WhisperLoadOptions {
  Device device;
  std::optional<DType> dtype;     // float32 on the CPU, float16 on a GPU when empty
  std::optional<DType> quantize;  // int8, float8_e4m3, ...: of the layers' matrices, not of the token table
};

struct WhisperWeights {
  WhisperConfig config;
  DType dtype = DType::float32;
  Device device;
  LinearWeights conv1, conv2;  // [d, 3 channels]: tap by tap
  Array encoder_positions;     // [max_source_positions, d]
  std::vector<EncoderLayer> encoder;
  NormWeights encoder_norm;
  Array token_table;        // [vocab, d]
  Weight head;              // the same, as the last product takes it
  Array decoder_positions;  // [max_target_positions, d]
  std::vector<DecoderLayer> decoder;
  NormWeights decoder_norm;

  /// Throws FileError; FormatError for a tensor that is missing or of another shape; DTypeError, OutOfMemoryError.
  static WhisperWeights load(const io::TensorFile& file, const WhisperConfig& config,
                             const WhisperLoadOptions& options);
  /// All of them 0, of these sizes.
  static WhisperWeights zeros(const WhisperConfig& config, const WhisperLoadOptions& options);
  int64_t num_parameters() const;
  int64_t nbytes() const;

 private:
  /// A file of null: zeros.
  static WhisperWeights make(const io::TensorFile* file, const WhisperConfig& config,
                             const WhisperLoadOptions& options);
};

}  // namespace gpukit::asr
