#include "gpukit/models/asr/whisper_weights.h"

#include "gpukit/base/error.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/manipulate/manipulate.h"

namespace gpukit::asr {
namespace {

class Loader {
 public:
  Loader(const io::TensorFile* file, const WhisperWeights& weights, const WhisperLoadOptions& options)
      : file_(file), weights_(weights), quantize_(options.quantize) {}

  Array tensor(const std::string& name, const Dims& shape) const {
    if (file_ == nullptr) return zeros(shape, weights_.dtype, weights_.device);
    const std::string full = file_->contains("model." + name) ? "model." + name : name;
    if (!file_->contains(full)) throw FormatError(file_->path() + ": there is no tensor 'model." + name + "'");
    const io::TensorInfo& info = file_->info(full);
    if (!(info.shape == shape))
      throw FormatError(file_->path() + ": tensor '" + full + "' has shape " + info.shape.str() +
                        ", the configuration says " + shape.str());
    return file_->load(full, weights_.device, weights_.dtype);
  }

  NormWeights norm(const std::string& name) const {
    const Dims shape{weights_.config.d_model};
    return {tensor(name + ".weight", shape), tensor(name + ".bias", shape)};
  }

  LinearWeights linear(const std::string& name, int64_t outputs, int64_t inputs) const {
    return {pack(tensor(name + ".weight", {outputs, inputs})), tensor(name + ".bias", {outputs})};
  }

  /// What follows is of the decoder, which reads a token at a time.
  void expect_few_rows() { few_rows_ = true; }

  /// Projections of one input as one matrix; the one of the keys has no bias.
  LinearWeights joined(const std::string& prefix, std::initializer_list<const char*> parts) const {
    const int64_t d = weights_.config.d_model;
    std::vector<Array> matrices, biases;
    for (const std::string part : parts) {
      matrices.push_back(tensor(prefix + part + ".weight", {d, d}));
      biases.push_back(part == "k_proj" ? zeros({d}, weights_.dtype, weights_.device)
                                        : tensor(prefix + part + ".bias", {d}));
    }
    return {pack(concat(matrices)), concat(biases)};
  }

  /// A convolution over three steps as a product with the channels of three neighbours.
  LinearWeights convolution(const std::string& name, int64_t channels) const {
    const int64_t d = weights_.config.d_model;
    const Array kernel = tensor(name + ".weight", {d, channels, 3});
    return {Weight(copy(kernel.permute({0, 2, 1})).reshape_view({d, 3 * channels})), tensor(name + ".bias", {d})};
  }

  void layer(EncoderLayer& to, const std::string& prefix, int64_t ffn) const {
    const int64_t d = weights_.config.d_model;
    to.attention_norm = norm(prefix + "self_attn_layer_norm");
    to.mlp_norm = norm(prefix + "final_layer_norm");
    to.qkv = joined(prefix + "self_attn.", {"q_proj", "k_proj", "v_proj"});
    to.out = linear(prefix + "self_attn.out_proj", d, d);
    to.fc1 = linear(prefix + "fc1", ffn, d);
    to.fc2 = linear(prefix + "fc2", d, ffn);
  }

  void cross_layer(DecoderLayer& to, const std::string& prefix) const {
    const int64_t d = weights_.config.d_model;
    to.cross_norm = norm(prefix + "encoder_attn_layer_norm");
    to.cross_q = linear(prefix + "encoder_attn.q_proj", d, d);
    to.cross_kv = joined(prefix + "encoder_attn.", {"k_proj", "v_proj"});
    to.cross_out = linear(prefix + "encoder_attn.out_proj", d, d);
  }

 private:
  Weight pack(const Array& matrix) const {
    if (quantize_) return Weight::quantize(matrix, *quantize_, QuantizeOptions());
    return few_rows_ ? Weight::for_few_rows(matrix) : Weight(matrix);
  }

  const io::TensorFile* const file_;
  const WhisperWeights& weights_;
  const std::optional<DType> quantize_;
  bool few_rows_ = false;
};

template <typename F>
void for_each_part(const WhisperWeights& w, F&& f) {
  const auto norm = [&](const NormWeights& n) {
    f(n.gamma.size() + n.beta.size(), n.gamma.nbytes() + n.beta.nbytes());
  };
  const auto linear = [&](const LinearWeights& l) {
    f(l.weight.rows() * l.weight.columns() + l.bias.size(), l.weight.nbytes() + l.bias.nbytes());
  };
  const auto layer = [&](const EncoderLayer& l) {
    norm(l.attention_norm), norm(l.mlp_norm);
    linear(l.qkv), linear(l.out), linear(l.fc1), linear(l.fc2);
  };
  linear(w.conv1), linear(w.conv2);
  for (const Array* table : {&w.encoder_positions, &w.token_table, &w.decoder_positions})
    f(table->size(), table->nbytes());
  for (const EncoderLayer& l : w.encoder) layer(l);
  norm(w.encoder_norm);
  for (const DecoderLayer& l : w.decoder) {
    layer(l);
    norm(l.cross_norm);
    linear(l.cross_q), linear(l.cross_kv), linear(l.cross_out);
  }
  norm(w.decoder_norm);
}

}  // namespace

WhisperWeights WhisperWeights::load(const io::TensorFile& file, const WhisperConfig& config,
                                    const WhisperLoadOptions& options) {
  return make(&file, config, options);
}

WhisperWeights WhisperWeights::zeros(const WhisperConfig& config, const WhisperLoadOptions& options) {
  config.check();
  return make(nullptr, config, options);
}

WhisperWeights WhisperWeights::make(const io::TensorFile* file, const WhisperConfig& config,
                                    const WhisperLoadOptions& options) {
  WhisperWeights w;
  w.config = config;
  w.device = options.device;
  w.dtype = options.dtype.value_or(w.device.kind == DeviceKind::cpu ? DType::float32 : DType::float16);
  if (w.dtype != DType::float32 && w.dtype != DType::float16 && w.dtype != DType::bfloat16)
    throw DTypeError("whisper", "dtype", "be float32, float16 or bfloat16", name(w.dtype));
  Loader load(file, w, options);
  const int64_t d = config.d_model;
  w.conv1 = load.convolution("encoder.conv1", config.num_mel_bins);
  w.conv2 = load.convolution("encoder.conv2", d);
  w.encoder_positions = load.tensor("encoder.embed_positions.weight", {config.max_source_positions, d});
  for (int64_t i = 0; i < config.encoder_layers; ++i)
    load.layer(w.encoder.emplace_back(), "encoder.layers." + std::to_string(i) + ".", config.encoder_ffn_dim);
  w.encoder_norm = load.norm("encoder.layer_norm");
  w.token_table = load.tensor("decoder.embed_tokens.weight", {config.vocab_size, d});
  w.head = Weight::for_few_rows(w.token_table);
  w.decoder_positions = load.tensor("decoder.embed_positions.weight", {config.max_target_positions, d});
  load.expect_few_rows();
  for (int64_t i = 0; i < config.decoder_layers; ++i) {
    const std::string prefix = "decoder.layers." + std::to_string(i) + ".";
    load.layer(w.decoder.emplace_back(), prefix, config.decoder_ffn_dim);
    load.cross_layer(w.decoder.back(), prefix);
  }
  w.decoder_norm = load.norm("decoder.layer_norm");
  return w;
}

int64_t WhisperWeights::num_parameters() const {
  int64_t sum = 0;
  for_each_part(*this, [&](int64_t count, int64_t) { sum += count; });
  return sum;
}

int64_t WhisperWeights::nbytes() const {
  int64_t sum = 0;
  for_each_part(*this, [&](int64_t, int64_t bytes) { sum += bytes; });
  return sum;
}

}  // namespace gpukit::asr
