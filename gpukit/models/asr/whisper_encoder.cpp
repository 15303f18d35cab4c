#include "gpukit/models/asr/whisper_encoder.h"

#include "gpukit/base/error.h"
#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/attention/attention.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/ops/norm/norm.h"

namespace gpukit::asr {
namespace {

constexpr double kNormEps = 1e-5;

/// gelu(conv(input)) over three steps. `padded` is [length + 2, channels] with zeros at its ends, `out`
/// [length / stride, d].
void convolve(const Array& padded, const LinearWeights& weights, int64_t stride, const Array& out) {
  const int64_t channels = padded.shape(1);
  const Array windows(padded.storage(), padded.dtype(), {(padded.shape(0) - 2) / stride, 3 * channels},
                      {stride * channels, 1}, padded.offset_bytes());
  linear(windows, weights.weight, {.bias = weights.bias}, &out);
  gelu_erf(out, &out);
}

/// Both convolutions of one item, with the positions added.
void embed(const WhisperWeights& w, const Array& mel, const Array& out) {
  const int64_t bins = w.config.num_mel_bins, length = 2 * w.config.max_source_positions;
  const Array first = zeros({length + 2, bins}, w.dtype, w.device);
  copy_into(first.narrow(0, 1, length), mel.transpose());
  const Array second = zeros({length + 2, w.config.d_model}, w.dtype, w.device);
  convolve(first, w.conv1, 1, second.narrow(0, 1, length));
  convolve(second, w.conv2, 2, out);
  add(out, w.encoder_positions, &out);
}

/// What the layers make and use up.
struct EncoderRoom {
  Array h, mixed, qkv, wide;
  EncoderRoom(const Array& x, int64_t heads, int64_t ffn) {
    const auto make = [&](const Dims& shape) { return Array::empty(shape, x.dtype(), x.device()); };
    const int64_t batch = x.shape(0), length = x.shape(1), d = x.shape(2);
    h = make(x.shape());
    mixed = make({batch, length, heads, d / heads});
    qkv = make({batch, length, 3 * d});
    wide = make({batch, length, ffn});
  }
};

void encode_layer(const EncoderLayer& layer, const EncoderRoom& room, const Array& x) {
  const int64_t d = x.shape(2);
  const auto part = [&](int64_t i) { return room.qkv.narrow(2, i * d, d).reshape_view(room.mixed.shape()); };
  layernorm(x, layer.attention_norm.gamma, layer.attention_norm.beta, kNormEps, &room.h);
  linear(room.h, layer.qkv.weight, {.bias = layer.qkv.bias}, &room.qkv);
  attention(part(0), part(1), part(2), {}, &room.mixed);
  linear(room.mixed.reshape_view(x.shape()), layer.out.weight, {.bias = layer.out.bias, .residual = x}, &x);
  layernorm(x, layer.mlp_norm.gamma, layer.mlp_norm.beta, kNormEps, &room.h);
  linear(room.h, layer.fc1.weight, {.bias = layer.fc1.bias, .activation = Activation::gelu_erf}, &room.wide);
  linear(room.wide, layer.fc2.weight, {.bias = layer.fc2.bias, .residual = x}, &x);
}

}  // namespace

void check_layer_input(const char* op, const WhisperWeights& w, const Array& x) {
  if (x.ndim() != 3 || x.shape(2) != w.config.d_model)
    throw ShapeError(op, "x", "be [batch, length, " + std::to_string(w.config.d_model) + "]", x.shape().str());
  check_dtype(op, "x", x, w.dtype);
  if (x.device() != w.device)
    throw DeviceError(std::string(op) + ": x is on " + str(x.device()) + ", the weights are on " + str(w.device));
}

Array encode_layer(const WhisperWeights& w, size_t layer, const Array& given) {
  check_layer_input("WhisperEncoderLayer", w, given);
  const Array x = copy(given);
  encode_layer(w.encoder[layer], EncoderRoom(x, w.config.encoder_attention_heads, w.config.encoder_ffn_dim), x);
  return x;
}

Array encode(const WhisperWeights& w, const Array& mel) {
  const WhisperConfig& c = w.config;
  check_dtype("whisper_encode", "mel", mel, DType::float32);
  if (mel.ndim() != 3 || mel.shape(1) != c.num_mel_bins || mel.shape(2) != 2 * c.max_source_positions)
    throw ShapeError("whisper_encode", "mel",
                     "have shape [batch, " + std::to_string(c.num_mel_bins) + ", " +
                         std::to_string(2 * c.max_source_positions) + "]",
                     mel.shape().str());
  if (!(mel.device() == w.device))
    throw DeviceError("whisper_encode: mel is on " + str(mel.device()) + ", the weights are on " + str(w.device));

  const int64_t batch = mel.shape(0), length = c.max_source_positions, d = c.d_model;
  const int64_t heads = c.encoder_attention_heads;
  const Array x = Array::empty({batch, length, d}, w.dtype, w.device);
  for (int64_t i = 0; i < batch; ++i) embed(w, mel.select(0, i), x.select(0, i));

  const EncoderRoom room(x, heads, c.encoder_ffn_dim);
  for (const EncoderLayer& layer : w.encoder) encode_layer(layer, room, x);
  layernorm(x, w.encoder_norm.gamma, w.encoder_norm.beta, kNormEps, &room.h);
  return room.h;
}

}  // namespace gpukit::asr
