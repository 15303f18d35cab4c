#include "gpukit/models/tts/prosody.h"

#include <array>
#include <cmath>
#include <numbers>

#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/norm/norm.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::tts {

namespace {

constexpr double kSlope = 0.2;

/// [steps, a] and one row [1, b] -> [steps, a + b].
Array beside(const Array& x, const Array& row) {
  const std::array<Array, 2> both{x, row.broadcast_to({x.shape(0), row.shape(1)})};
  return concat(both, 1);
}

}  // namespace

AdainBlock::AdainBlock(Loader& loader, const std::string& name, int64_t in, int64_t out, bool upsample)
    : norm1_(loader.style(name + ".norm1.fc", in)),
      norm2_(loader.style(name + ".norm2.fc", out)),
      conv1_(loader.conv(name + ".conv1", {out, in, 3}, 1)),
      conv2_(loader.conv(name + ".conv2", {out, out, 3}, 1)),
      upsample_(upsample),
      projects_(in != out) {
  if (upsample) pool_ = loader.conv_transpose(name + ".pool", {in, 1, 3}, 1, 2, 1, in);
  if (projects_) shortcut_ = loader.conv(name + ".conv1x1", {out, in, 1}, 0);
}

Array AdainBlock::operator()(const Array& x, const Array& styles) const {
  Array residual = leaky_relu(adapt(x, styles, norm1_), kSlope);
  if (upsample_) residual = pool_(residual);
  residual = conv2_(leaky_relu(adapt(conv1_(residual), styles, norm2_), kSlope));
  Array shortcut = upsample_ ? repeat(x, 2, 2) : x;
  if (projects_) shortcut = shortcut_(shortcut);
  return multiply(add(residual, shortcut), std::numbers::sqrt2 / 2);
}

TextEncoder::TextEncoder(const Loader& loader, const KokoroConfig& c)
    : table_(loader.tensor("text_encoder.embedding.weight", {c.n_token, c.hidden_dim})),
      lstm_(loader.lstm("text_encoder.lstm", c.hidden_dim, c.hidden_dim / 2)) {
  const int64_t width = c.hidden_dim, taps = c.text_encoder_kernel_size;
  for (int64_t i = 0; i < c.n_layer; ++i) {
    const std::string name = "text_encoder.cnn." + std::to_string(i);
    layers_.push_back({loader.conv(name + ".0", {width, width, taps}, (taps - 1) / 2),
                       loader.tensor(name + ".1.gamma", {width}), loader.tensor(name + ".1.beta", {width})});
  }
}

Array TextEncoder::operator()(const Array& ids) const {
  constexpr double kEps = 1e-5;
  Array x = embedding(table_, ids).expand_dims(0);  // [1, steps, hidden]
  for (const Layer& layer : layers_) {
    const Array y = layer.conv(x.permute({0, 2, 1})).permute({0, 2, 1});
    x = leaky_relu(layernorm(y, layer.gamma, layer.beta, kEps), kSlope);
  }
  return lstm_(x).squeeze(0);
}

Prosody::Prosody(Loader& loader, const KokoroConfig& c) {
  const int64_t hidden = c.hidden_dim, half = hidden / 2, wide = hidden + c.style_dim;
  for (int64_t i = 0; i < c.n_layer; ++i) {
    const std::string name = "predictor.text_encoder.lstms.";
    layers_.push_back({loader.lstm(name + std::to_string(2 * i), wide, half),
                       loader.style(name + std::to_string(2 * i + 1) + ".fc", hidden)});
  }
  lstm_ = loader.lstm("predictor.lstm", wide, half);
  shared_ = loader.lstm("predictor.shared", wide, half);
  duration_ = loader.linear("predictor.duration_proj.linear_layer", c.max_dur, hidden);
  const auto branch = [&](const std::string& name) {
    std::vector<AdainBlock> blocks;
    blocks.emplace_back(loader, name + ".0", hidden, hidden);
    blocks.emplace_back(loader, name + ".1", hidden, half, true);
    blocks.emplace_back(loader, name + ".2", half, half);
    return blocks;
  };
  f0_ = branch("predictor.F0");
  energy_ = branch("predictor.N");
  f0_out_ = loader.conv("predictor.F0_proj", {1, half, 1}, 0);
  energy_out_ = loader.conv("predictor.N_proj", {1, half, 1}, 0);
  table_ = loader.styles(c.style_dim);
}

Array Prosody::encode(const Array& encoded, const Array& style, const Array& styles) const {
  Array x = beside(encoded, style);
  for (const Layer& layer : layers_)
    x = beside(adapt_steps(layer.lstm(x.expand_dims(0)), styles, layer.norm).squeeze(0), style);
  return x;
}

Array Prosody::durations(const Array& d) const {
  const Array logits = duration_(lstm_(d.expand_dims(0)).squeeze(0));
  return sum(sigmoid(astype(logits, DType::float32)), Dims{1});
}

Prosody::Curves Prosody::curves(const Array& d, const Array& styles) const {
  const Array shared = shared_(d.expand_dims(0)).permute({0, 2, 1});
  const auto run = [&](const std::vector<AdainBlock>& blocks, const Conv& out) {
    Array x = shared;
    for (const AdainBlock& block : blocks) x = block(x, styles);
    return out(x);
  };
  return {run(f0_, f0_out_), run(energy_, energy_out_)};
}

}  // namespace gpukit::tts
