#include "gpukit/models/tts/prosody.h"

#include <cmath>
#include <numbers>

#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/norm/group_norm.h"
#include "gpukit/ops/norm/norm.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::tts {

namespace {

constexpr double kSlope = 0.2, kEps = 1e-5;

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

Array AdainBlock::operator()(const Array& x, const Array& styles, Temporaries& room) const {
  const auto adapt = [&](const Array& given, const StyleSlot& slot, const Array& out) {
    adain_leaky_relu(given, slot.gamma(styles), slot.beta(styles), kSlope, kEps, &out);
  };
  const int64_t steps = upsample_ ? 2 * x.shape(2) : x.shape(2);
  const Array out = room.empty({1, norm2_.channels, steps}, x.dtype(), x.device());
  Temporaries inner(room.op());
  Array residual = inner.empty_like(x);
  adapt(x, norm1_, residual);
  if (upsample_) residual = pool_(residual, inner);
  const Array hidden = conv1_(residual, inner);
  adapt(hidden, norm2_, hidden);
  conv2_.into(hidden, out);
  Array shortcut = x;
  if (upsample_) {
    shortcut = inner.empty({1, norm1_.channels, steps}, x.dtype(), x.device());
    repeat(x, 2, 2, &shortcut);
  }
  if (projects_) shortcut = shortcut_(shortcut, inner);
  add(out, shortcut, &out);
  multiply(out, std::numbers::sqrt2 / 2, &out);
  return out;
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

void TextEncoder::operator()(const Array& ids, const Array& out) const {
  Temporaries room("TextEncoder");
  const Array x = room.empty({1, ids.shape(0), out.shape(1)}, out.dtype(), out.device());
  embedding(table_, ids.expand_dims(0), &x);
  for (const Layer& layer : layers_) {
    Temporaries inner("TextEncoder");
    const Array y = layer.conv(x.permute({0, 2, 1}), inner).permute({0, 2, 1});
    layernorm(y, layer.gamma, layer.beta, kEps, &x);
    leaky_relu(x, kSlope, &x);
  }
  lstm_.into(x, out.expand_dims(0), room);
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

void Prosody::encode(const Array& encoded, const Array& style, const Array& styles, const Array& d) const {
  const int64_t hidden = encoded.shape(1);
  const Array x = d.narrow(1, 0, hidden);
  copy_into(x, encoded);
  copy_into(d.narrow(1, hidden, style.shape(1)), style);
  for (const Layer& layer : layers_) {
    Temporaries room("Prosody");
    const Array y = layer.lstm(d.expand_dims(0), room), to = x.expand_dims(0);
    adaln(y, layer.norm.gamma(styles), layer.norm.beta(styles), kEps, &to);
  }
}

void Prosody::durations(const Array& d, const Array& out) const {
  Temporaries room("Prosody");
  const Array chances = astype(duration_(lstm_(d.expand_dims(0), room).squeeze(0), room), DType::float32, room);
  sigmoid(chances, &chances);
  sum(chances, Dims{1}, false, {}, &out);
}

Prosody::Curves Prosody::curves(const Array& d, const Array& styles, Temporaries& room) const {
  const Array shared = shared_(d.expand_dims(0), room).permute({0, 2, 1});
  const auto run = [&](const std::vector<AdainBlock>& blocks, const Conv& out) {
    Array x = shared;
    for (const AdainBlock& block : blocks) x = block(x, styles, room);
    return out(x, room);
  };
  return {run(f0_, f0_out_), run(energy_, energy_out_)};
}

}  // namespace gpukit::tts
