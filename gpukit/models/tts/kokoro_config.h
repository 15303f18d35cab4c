// config.json of a Kokoro checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpukit/base/json.h"

namespace gpukit::tts {

/// That of the published checkpoint, 114 phonemes: UTF-8 of one code point, and its id.
std::vector<std::pair<std::string, int64_t>> default_vocabulary();

struct KokoroConfig {
  int64_t dim_in = 64, hidden_dim = 512, style_dim = 128, n_layer = 3, n_token = 178, max_dur = 50, n_mels = 80;
  int64_t text_encoder_kernel_size = 5;
  int64_t sample_rate = 24000;
  std::vector<int64_t> upsample_rates = {10, 6}, upsample_kernel_sizes = {20, 12};
  std::vector<int64_t> resblock_kernel_sizes = {3, 7, 11};
  std::vector<std::vector<int64_t>> resblock_dilation_sizes = {{1, 3, 5}, {1, 3, 5}, {1, 3, 5}};
  int64_t upsample_initial_channel = 512, gen_istft_n_fft = 20, gen_istft_hop_size = 5;
  int64_t plbert_hidden_size = 768, plbert_num_attention_heads = 12, plbert_intermediate_size = 2048,
          plbert_max_position_embeddings = 512, plbert_num_hidden_layers = 12;
  std::vector<std::pair<std::string, int64_t>> vocab = default_vocabulary();  // in the file's order

  /// What the object does not name keeps its value above. Throws FormatError and ArgumentError naming the member: a
  /// wrong kind, a size below 1, a token that is not one code point or whose id is outside of [0, n_token).
  static KokoroConfig from_json(const Json& json);
  /// Throws FileError too.
  static KokoroConfig open(const std::string& path);
  Json to_json() const;

  /// Phonemes of one call: the positions without the pads at both ends.
  int64_t max_phonemes() const { return plbert_max_position_embeddings - 2; }
  /// Samples for each value of the pitch, and for each frame of the durations.
  int64_t samples_per_pitch() const;
  int64_t samples_per_frame() const { return 2 * samples_per_pitch(); }
};

/// Phonemes to ids and back, code point by code point.
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(const KokoroConfig& config);
  /// Without the pads. Code points that have no id are left out; `unknown`, when given, gets each of them once.
  std::vector<int32_t> ids(std::string_view phonemes, std::vector<std::string>* unknown = nullptr) const;
  /// Ids without a phoneme are left out.
  std::string phonemes(const std::vector<int32_t>& ids) const;

 private:
  std::unordered_map<char32_t, int32_t> ids_;
  std::unordered_map<int32_t, char32_t> phonemes_;
};

}  // namespace gpukit::tts
