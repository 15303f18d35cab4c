// What the files beside Whisper's weights say: sizes, special tokens, suppressed ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpukit/base/json.h"

namespace gpukit::asr {

/// config.json. What is not given is large-v3's.
struct WhisperConfig {
  int64_t d_model = 1280;
  int64_t encoder_layers = 32, encoder_attention_heads = 20, encoder_ffn_dim = 5120;
  int64_t decoder_layers = 32, decoder_attention_heads = 20, decoder_ffn_dim = 5120;
  int64_t vocab_size = 51866, num_mel_bins = 128;
  int64_t max_source_positions = 1500, max_target_positions = 448;
  std::string activation_function = "gelu";
  int64_t bos_token_id = 50257, eos_token_id = 50257, pad_token_id = 50256, decoder_start_token_id = 50258;
  std::vector<int64_t> suppress_tokens, begin_suppress_tokens = {220, 50257};

  /// Throws FormatError for a member of another kind, and what check() throws.
  static WhisperConfig from_json(const Json& json);
  Json to_json() const;
  /// Throws FormatError for sizes that do not fit each other, UnsupportedError for an activation other than gelu.
  void check() const;
  int64_t head_dim() const { return d_model / encoder_attention_heads; }
  /// Fewer layers in the decoder than in the encoder.
  bool is_distilled() const { return decoder_layers < encoder_layers; }
};

/// The ids of Whisper's special tokens, which follow the text tokens, and of its languages.
struct WhisperTokens {
  int64_t end_of_text = 0, start = 0, translate = 0, transcribe = 0, start_of_previous = 0, no_speech = 0;
  int64_t no_timestamps = 0, timestamp_begin = 0;
  bool multilingual = true;
  std::vector<std::pair<std::string, int64_t>> languages;  // `en` and its token

  /// By the size of the vocabulary, as every model has them. Throws FormatError for one too small.
  static WhisperTokens from_vocabulary(int64_t vocab_size);
  /// Throws ArgumentError for an unknown language; takes `en`, `<|en|>` and `English`.
  int64_t language(std::string_view name) const;
  /// What stands before a text: start, language, `transcribe` or `translate`, and no_timestamps without timestamps. A
  /// model of English alone has no word for language and task. Throws ArgumentError.
  std::vector<int64_t> prompt(std::string_view language, std::string_view task, bool timestamps) const;
  bool is_timestamp(int64_t id) const { return id >= timestamp_begin; }
};

/// generation_config.json and preprocessor_config.json beside config.json, as far as they exist.
struct WhisperFiles {
  WhisperConfig config;
  WhisperTokens tokens;
  int64_t max_initial_timestamp = 50;                        // in steps of 0.02 s
  std::vector<std::pair<int64_t, int64_t>> alignment_heads;  // (layer, head) for word times; empty: upper half

  /// Throws FileError, FormatError naming the file.
  static WhisperFiles read(const std::string& folder);
};

}  // namespace gpukit::asr
