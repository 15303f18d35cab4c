#include "gpukit/models/tts/parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/cast.h"

namespace gpukit::tts {

Array Linear::operator()(const Array& x, Temporaries& room, LinearOptions options) const {
  const Array out = room.empty({x.shape(0), weight.rows()}, x.dtype(), x.device());
  into(x, out, std::move(options));
  return out;
}

void Linear::into(const Array& x, const Array& out, LinearOptions options) const {
  options.bias = bias;
  gpukit::linear(x, weight, options, &out);
}

Dims Conv::shape(const Dims& x) const {
  const ConvTransposeOptions& o = options;
  const int64_t reach = o.dilation * (weight.shape(2) - 1) + 1;
  const int64_t length = transposed ? (x[2] - 1) * o.stride - 2 * o.padding + reach + o.output_padding
                                    : (x[2] + 2 * o.padding - reach) / o.stride + 1;
  return {x[0], transposed ? weight.shape(1) * o.groups : weight.shape(0), length};
}

Array Conv::operator()(const Array& x, Temporaries& room) const {
  const Array out = room.empty(shape(x.shape()), x.dtype(), x.device());
  into(x, out);
  return out;
}

void Conv::into(const Array& x, const Array& out) const {
  if (transposed)
    conv_transpose1d(x, weight, options, &out);
  else
    conv1d(x, weight, options, &out);
}

Array BiLstm::operator()(const Array& x, Temporaries& room) const {
  const Array out = room.empty({x.shape(0), x.shape(1), 2 * forward.w_hh.shape(1)}, x.dtype(), x.device());
  into(x, out, room);
  return out;
}

void BiLstm::into(const Array& x, const Array& out, Temporaries& room) const {
  const Dims states{2, x.shape(0), forward.w_hh.shape(1)};
  const LstmResult result{out, room.empty(states, x.dtype(), x.device()), room.empty(states, x.dtype(), x.device())};
  lstm_bidirectional(x, forward, backward, {}, {}, &result);
}

Array StyleSlot::gamma(const Array& styles) const { return styles.narrow(1, at, channels); }
Array StyleSlot::beta(const Array& styles) const { return styles.narrow(1, at + channels, channels); }

const Dims& Loader::stored_shape(const std::string& name) const {
  if (!file_.contains(name)) throw NotFoundError("kokoro: " + file_.path() + " has no tensor " + name);
  return file_.info(name).shape;
}

int64_t Loader::size(const std::string& name, int rank, int axis) const {
  const Dims& shape = stored_shape(name);
  if (shape.rank() != rank)
    throw FormatError("kokoro: " + name + " must have " + std::to_string(rank) + " dimensions, got " + shape.str());
  return shape[axis];
}

Array Loader::host(const std::string& name, const Dims& shape) const {
  const Dims& stored = stored_shape(name);
  if (stored != shape)
    throw FormatError("kokoro: " + name + " must have shape " + shape.str() + ", got " + stored.str());
  return file_.load(name, Device{}, DType::float32);
}

Array Loader::moved(const Array& host) const { return to_device(astype(host, dtype_), device_); }

Array Loader::tensor(const std::string& name, const Dims& shape) const { return moved(host(name, shape)); }

Linear Loader::linear(const std::string& name, int64_t out, int64_t in) const { return joined({name}, out, in); }

Linear Loader::joined(const std::vector<std::string>& names, int64_t out, int64_t in) const {
  const auto parts = static_cast<int64_t>(names.size());
  const Array weight = Array::empty({parts * out, in}, DType::float32, Device{});
  const Array bias = Array::empty({parts * out}, DType::float32, Device{});
  for (int64_t i = 0; i < parts; ++i) {
    const Array w = host(names[static_cast<size_t>(i)] + ".weight", {out, in});
    const Array b = host(names[static_cast<size_t>(i)] + ".bias", {out});
    std::memcpy(static_cast<float*>(weight.host_data()) + i * out * in, w.host_data(), static_cast<size_t>(w.nbytes()));
    std::memcpy(static_cast<float*>(bias.host_data()) + i * out, b.host_data(), static_cast<size_t>(b.nbytes()));
  }
  return {Weight(moved(weight)), moved(bias)};
}

Array Loader::conv_weight(const std::string& name, const Dims& shape) const {
  if (!file_.contains(name + ".weight_v")) return tensor(name + ".weight", shape);
  const Array v = host(name + ".weight_v", shape), g = host(name + ".weight_g", {shape[0], 1, 1});
  auto* values = static_cast<float*>(v.host_data());
  const auto* norms = static_cast<const float*>(g.host_data());
  const int64_t row = shape[1] * shape[2];
  for (int64_t i = 0; i < shape[0]; ++i) {
    double squares = 0;
    for (int64_t k = 0; k < row; ++k) squares += static_cast<double>(values[i * row + k]) * values[i * row + k];
    const double scale = squares > 0 ? norms[i] / std::sqrt(squares) : 0;
    for (int64_t k = 0; k < row; ++k) values[i * row + k] = static_cast<float>(scale * values[i * row + k]);
  }
  return moved(v);
}

Array Loader::laid_out(const Array& weight, bool transposed) const {
  const bool tensor_cores = device_.kind == DeviceKind::cuda && dtype_ != DType::float32;
  constexpr int64_t kFewChannels = 8;  // those of fewer go another way
  const int64_t in = weight.shape(transposed ? 0 : 1), out = weight.shape(transposed ? 1 : 0);
  return tensor_cores && std::min(in, out) >= kFewChannels ? lay_out_conv_weight(weight, transposed) : weight;
}

Conv Loader::conv(const std::string& name, const Dims& shape, int64_t padding, int64_t stride, int64_t dilation) const {
  Conv layer;
  layer.weight = laid_out(conv_weight(name, shape), false);
  layer.options.padding = padding;
  layer.options.stride = stride;
  layer.options.dilation = dilation;
  if (file_.contains(name + ".bias")) layer.options.bias = tensor(name + ".bias", {shape[0]});
  return layer;
}

Conv Loader::conv_transpose(const std::string& name, const Dims& shape, int64_t padding, int64_t stride,
                            int64_t output_padding, int64_t groups) const {
  Conv layer;
  layer.transposed = true;
  layer.weight = laid_out(conv_weight(name, shape), true);
  layer.options.padding = padding;
  layer.options.stride = stride;
  layer.options.output_padding = output_padding;
  layer.options.groups = groups;
  layer.options.bias = tensor(name + ".bias", {shape[1] * groups});
  return layer;
}

BiLstm Loader::lstm(const std::string& name, int64_t in, int64_t hidden) const {
  const auto direction = [&](const std::string& suffix) {
    return LstmWeights{tensor(name + ".weight_ih_l0" + suffix, {4 * hidden, in}),
                       tensor(name + ".weight_hh_l0" + suffix, {4 * hidden, hidden}),
                       tensor(name + ".bias_ih_l0" + suffix, {4 * hidden}),
                       tensor(name + ".bias_hh_l0" + suffix, {4 * hidden})};
  };
  return {direction(""), direction("_reverse")};
}

StyleSlot Loader::style(const std::string& name, int64_t channels) {
  slots_.emplace_back(name, channels);
  const StyleSlot slot{slots_end_, channels};
  slots_end_ += 2 * channels;
  return slot;
}

StyleTable Loader::styles(int64_t style_dim) {
  const Array weight = Array::empty({slots_end_, style_dim}, DType::float32, Device{});
  const Array bias = Array::empty({slots_end_}, DType::float32, Device{});
  auto* to_weight = static_cast<float*>(weight.host_data());
  auto* to_bias = static_cast<float*>(bias.host_data());
  for (const auto& [name, channels] : slots_) {
    const Array w = host(name + ".weight", {2 * channels, style_dim}), b = host(name + ".bias", {2 * channels});
    std::memcpy(to_weight, w.host_data(), static_cast<size_t>(w.nbytes()));
    std::memcpy(to_bias, b.host_data(), static_cast<size_t>(b.nbytes()));
    to_weight += w.size();
    to_bias += b.size();
  }
  slots_.clear();
  slots_end_ = 0;
  return {{Weight(moved(weight)), moved(bias)}};
}

}  // namespace gpukit::tts
