#include "gpukit/models/tts/decoder.h"

#include <array>
#include <utility>

#include "gpukit/array/host.h"
#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/audio/spectrum.h"
#include "gpukit/ops/audio/vocoder.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/manipulate/manipulate.h"
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

Array Generator::run(const ResBlock& block, const Array& given, const Array& styles) {
  Array x = given;
  for (const Unit& unit : block) {
    const Array t = unit.conv1(snake(adapt(x, styles, unit.norm1), unit.alpha1));
    x = add(unit.conv2(snake(adapt(t, styles, unit.norm2), unit.alpha2)), x);
  }
  return x;
}

Array Generator::source_spectrum(const Array& f0, const NoiseSeed& noise) const {
  const audio::HarmonicOptions options{
      .rate = static_cast<double>(rate_), .step = step_, .mix = mix_, .bias = mix_bias_};
  std::optional<random::State> state;
  if (noise.seed) state = random::State{*noise.seed, noise.offset};
  const Array source = audio::harmonic_source(f0, options, nullptr, state);
  return audio::magnitude_phase(audio::stft(source, {.n_fft = n_fft_, .hop_length = hop_, .window = {}}));
}

Array Generator::operator()(const Array& given, const Array& f0, const Array& styles, const NoiseSeed& noise) const {
  constexpr double kSlope = 0.1, kLastSlope = 0.01;
  const Array spectrum = astype(source_spectrum(f0, noise), given.dtype()).expand_dims(0);
  Array x = given;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    const Array excited = run(stage.noise_block, stage.noise_conv(spectrum), styles);
    x = stage.up(leaky_relu(x, kSlope));
    if (i + 1 == stages_.size()) {
      const std::array<std::pair<int64_t, int64_t>, 3> left{{{0, 0}, {0, 0}, {1, 0}}};
      x = pad(x, left, PadMode::reflect);
    }
    x = add(x, excited);
    Array total;
    for (const ResBlock& block : stage.blocks) {
      const Array y = run(block, x, styles);
      total = total.defined() ? add(total, y, &total) : y;
    }
    x = multiply(total, 1.0 / static_cast<double>(stage.blocks.size()), &total);
  }
  const Array logs = astype(post_(leaky_relu(x, kLastSlope)), DType::float32).squeeze(0);
  return audio::samples_from_logs(logs, hop_, f0.shape(0) * step_);
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

Decoder::Features Decoder::features(const Array& text, const Prosody::Curves& curves, const Array& styles) const {
  const Array f0 = f0_(curves.f0), energy = energy_(curves.energy);
  const std::array<Array, 3> inputs{text, f0, energy};
  Features out;
  out.encoded = encode_(concat(inputs, 1), styles);
  const Array reduced = text_(text);
  out.decoded = out.encoded;
  for (const AdainBlock& block : decode_) {
    const std::array<Array, 4> parts{out.decoded, reduced, f0, energy};
    out.decoded = block(concat(parts, 1), styles);
  }
  return out;
}

}  // namespace gpukit::tts
