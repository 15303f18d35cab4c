#include "gpukit/models/tts/decoder.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "gpukit/array/host.h"
#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/audio/spectrum.h"
#include "gpukit/ops/audio/vocoder.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/norm/group_norm.h"
#include "gpukit/ops/random/random.h"

namespace gpukit::tts {

namespace {

constexpr int64_t kHarmonics = 9;

int64_t inner_channels(const Loader& loader) { return loader.size("decoder.encode.conv1.weight_v", 3, 0); }

}  // namespace

Generator::Generator(Loader& loader, const KokoroConfig& c)
    : n_fft_(c.gen_istft_n_fft), hop_(c.gen_istft_hop_size), step_(c.samples_per_pitch()), rate_(c.sample_rate) {
  const std::string name = "decoder.generator.";
  const Loader host(loader.file(), Device{}, DType::float32);
  const Array mix = host.tensor(name + "m_source.l_linear.weight", {1, kHarmonics});
  const auto* weights = static_cast<const float*>(mix.host_data());
  mix_.assign(weights, weights + kHarmonics);
  mix_bias_ = *static_cast<const float*>(host.tensor(name + "m_source.l_linear.bias", {1}).host_data());
  const int64_t rows = n_fft_ + 2;
  int64_t channels = c.upsample_initial_channel, left = step_ / hop_;  // steps of the source for one of x
  const size_t kernels = c.resblock_kernel_sizes.size();
  for (size_t i = 0; i < c.upsample_rates.size(); ++i) {
    const int64_t rate = c.upsample_rates[i], taps = c.upsample_kernel_sizes[i], half = channels / 2;
    left /= rate;
    const std::string index = std::to_string(i);
    Stage stage;
    stage.up = loader.conv_transpose(name + "ups." + index, {channels, half, taps}, (taps - rate) / 2, rate);
    const bool last = i + 1 == c.upsample_rates.size();
    const int64_t noise_taps = last ? 1 : 2 * left;
    stage.noise_conv =
        loader.conv(name + "noise_convs." + index, {half, rows, noise_taps}, last ? 0 : (left + 1) / 2, left);
    const std::vector<int64_t> dilations{1, 3, 5};
    stage.noise_block = block(loader, name + "noise_res." + index, half, last ? 11 : 7, dilations);
    for (size_t j = 0; j < kernels; ++j)
      stage.blocks.push_back(block(loader, name + "resblocks." + std::to_string(i * kernels + j), half,
                                   c.resblock_kernel_sizes[j], c.resblock_dilation_sizes[j]));
    stages_.push_back(std::move(stage));
    channels = half;
  }
  post_ = loader.conv(name + "conv_post", {rows, channels, 7}, 3);
}

Generator::ResBlock Generator::block(Loader& loader, const std::string& name, int64_t channels, int64_t taps,
                                     const std::vector<int64_t>& dilations) {
  ResBlock units;
  for (size_t j = 0; j < dilations.size(); ++j) {
    const std::string index = "." + std::to_string(j);
    const auto alpha = [&](const char* which) {
      return loader.tensor(name + which + index, {1, channels, 1}).reshape_view({channels});
    };
    const auto conv = [&](const char* which, int64_t dilation) {
      return loader.conv(name + which + index, {channels, channels, taps}, (taps - 1) * dilation / 2, 1, dilation);
    };
    units.push_back({loader.style(name + ".adain1" + index + ".fc", channels),
                     loader.style(name + ".adain2" + index + ".fc", channels), alpha(".alpha1"), alpha(".alpha2"),
                     conv(".convs1", dilations[j]), conv(".convs2", 1)});
  }
  return units;
}

void Generator::run(const ResBlock& block, const Array& given, const Array& styles, const Array& out) {
  constexpr double kEps = 1e-5;
  Temporaries room("Generator");
  const Array a = room.empty_like(given), b = room.empty_like(given);
  const auto adapt = [&](const Array& x, const StyleSlot& slot, const Array& alpha, const Array& to) {
    adain_snake(x, slot.gamma(styles), slot.beta(styles), alpha, kEps, &to);
  };
  Array x = given;
  for (const Unit& unit : block) {
    adapt(x, unit.norm1, unit.alpha1, a);
    unit.conv1.into(a, b);
    adapt(b, unit.norm2, unit.alpha2, b);
    unit.conv2.into(b, a);
    add(a, x, &out);
    x = out;
  }
}

Array Generator::source_spectrum(const Array& f0, const NoiseSeed& noise, Temporaries& room) const {
  const audio::HarmonicOptions options{
      .rate = static_cast<double>(rate_), .step = step_, .mix = mix_, .bias = mix_bias_};
  const audio::StftOptions frames{.n_fft = n_fft_, .hop_length = hop_, .window = {}};
  std::optional<random::State> state;
  if (noise.seed) state = random::State{*noise.seed, noise.offset};
  const int64_t samples = num_samples(f0.shape(0)), bins = n_fft_ / 2 + 1;
  const Array parts = room.empty({2 * bins, audio::stft_frames(samples, frames)}, DType::float32, f0.device());
  Temporaries inner(room.op());
  const Array source = inner.empty({samples}, DType::float32, f0.device());
  audio::harmonic_source(f0, options, nullptr, state, &source);
  const Array spectrum = inner.empty({parts.shape(1), bins}, DType::complex64, f0.device());
  audio::stft(source, frames, &spectrum);
  audio::magnitude_phase(spectrum, &parts);
  return parts;
}

int64_t Generator::workspace_bytes(int64_t points, DType dtype) const {
  constexpr int64_t kAtOnce = 5;  // arrays of a stage beside its result
  const int64_t item = itemsize(dtype), rows = n_fft_ + 2, frames = num_samples(points) / hop_ + 1;
  int64_t kept = frames * rows * (itemsize(DType::float32) + item);  // the spectrum, as it is made and as it is read
  int64_t most = frames * rows * itemsize(DType::float32) + num_samples(points) * itemsize(DType::float32);
  Dims shape{1, stages_[0].up.weight.shape(0), points};
  for (const Stage& stage : stages_) {
    const Dims next = stage.up.shape(shape);
    kept += next.product() * item;
    most = std::max(most, (kAtOnce * next.product() + shape.product()) * item);
    shape = next;
  }
  return kept + most;
}

void Generator::operator()(const Array& given, const Array& f0, const Array& styles, const NoiseSeed& noise,
                           const Array& out) const {
  constexpr double kSlope = 0.1, kLastSlope = 0.01;
  Temporaries room("Generator");
  const Array spectrum = astype(source_spectrum(f0, noise, room), given.dtype(), room).expand_dims(0);
  Array x = given;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    Dims shape = stage.up.shape(x.shape());
    const int64_t steps = shape[2], before = i + 1 == stages_.size() ? 1 : 0;
    shape[2] += before;
    const Array total = room.empty(shape, x.dtype(), x.device());
    Temporaries inner(room.op());
    const Array raised = inner.empty_like(total), other = inner.empty_like(total);
    {
      Temporaries first(room.op());
      const Array low = first.empty_like(x);
      leaky_relu(x, kSlope, &low);
      stage.up.into(low, raised.narrow(2, before, steps));
      if (before > 0) copy_into(raised.narrow(2, 0, 1), raised.narrow(2, 2, 1));  // reflected
      run(stage.noise_block, stage.noise_conv(spectrum, first), styles, other);
    }
    add(raised, other, &raised);
    for (size_t k = 0; k < stage.blocks.size(); ++k) {
      run(stage.blocks[k], raised, styles, k == 0 ? total : other);
      if (k > 0) add(total, other, &total);
    }
    multiply(total, 1.0 / static_cast<double>(stage.blocks.size()), &total);
    x = total;
  }
  leaky_relu(x, kLastSlope, &x);
  const Array logs = astype(post_(x, room), DType::float32, room).squeeze(0);
  audio::samples_from_logs(logs, hop_, out.shape(0), &out);
}

Decoder::Decoder(Loader& loader, const KokoroConfig& c)
    : f0_(loader.conv("decoder.F0_conv", {1, 1, 3}, 1, 2)),
      energy_(loader.conv("decoder.N_conv", {1, 1, 3}, 1, 2)),
      text_(loader.conv("decoder.asr_res.0", {c.dim_in, c.hidden_dim, 1}, 0)),
      encode_(loader, "decoder.encode", c.hidden_dim + 2, inner_channels(loader)),
      generator_(loader, c) {
  constexpr int kBlocks = 4;
  const int64_t inner = inner_channels(loader), in = inner + c.dim_in + 2;
  for (int i = 0; i < kBlocks; ++i) {
    const bool last = i + 1 == kBlocks;
    decode_.emplace_back(loader, "decoder.decode." + std::to_string(i), in, last ? c.upsample_initial_channel : inner,
                         last);
  }
  table_ = loader.styles(c.style_dim);
}

Decoder::Features Decoder::features(const Array& text, const Prosody::Curves& curves, const Array& styles,
                                    Temporaries& room) const {
  const Array f0 = f0_(curves.f0, room), energy = energy_(curves.energy, room);
  const auto joined = [&](std::span<const Array> parts) {
    int64_t channels = 0;
    for (const Array& part : parts) channels += part.shape(1);
    const Array out = room.empty({1, channels, text.shape(2)}, text.dtype(), text.device());
    concat(parts, 1, &out);
    return out;
  };
  Features out;
  out.encoded = encode_(joined(std::array{text, f0, energy}), styles, room);
  const Array reduced = text_(text, room);
  out.decoded = out.encoded;
  for (const AdainBlock& block : decode_)
    out.decoded = block(joined(std::array{out.decoded, reduced, f0, energy}), styles, room);
  return out;
}

}  // namespace gpukit::tts
