#include "gpukit/models/tts/kokoro.h"

#include <algorithm>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/models/tts/albert.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/embedding/embedding.h"

namespace gpukit::tts {

struct Kokoro::Networks {
  KokoroConfig config;
  Vocabulary vocabulary;
  Device device;
  DType dtype;
  Albert albert;
  Linear encoder;
  Prosody prosody;
  TextEncoder text;
  Decoder decoder;

  Networks(Loader& loader, KokoroConfig given)
      : config(std::move(given)),
        vocabulary(config),
        device(loader.device()),
        dtype(loader.dtype()),
        albert(loader, config),
        encoder(loader.linear("bert_encoder", config.hidden_dim, config.plbert_hidden_size)),
        prosody(loader, config),
        text(loader, config),
        decoder(loader, config) {}
};

Kokoro Kokoro::open(const std::string& folder, Device device, DType dtype) {
  if (dtype != DType::float32 && dtype != DType::float16 && dtype != DType::bfloat16)
    throw DTypeError("Kokoro", "dtype", "be float32, float16 or bfloat16", std::string(name(dtype)));
  KokoroConfig config = KokoroConfig::open(files::join(folder, "config.json"));
  if (2 * config.style_dim != kStyleWidth)
    throw FormatError("kokoro config: style_dim must be " + std::to_string(kStyleWidth / 2));
  if (config.upsample_rates.empty() || config.samples_per_pitch() % config.gen_istft_hop_size != 0)
    throw FormatError("kokoro config: upsample_rates must not be empty");
  const io::TensorFile file = io::TensorFile::open(folder);
  Loader loader(file, device, dtype);
  return Kokoro(std::make_shared<const Networks>(loader, std::move(config)));
}

const KokoroConfig& Kokoro::config() const { return networks_->config; }
const Vocabulary& Kokoro::vocabulary() const { return networks_->vocabulary; }
Device Kokoro::device() const { return networks_->device; }
DType Kokoro::dtype() const { return networks_->dtype; }

namespace {

/// Frames of each step, and the step of each frame.
struct Alignment {
  std::vector<int32_t> frames, steps;
};

Alignment align(const std::vector<float>& unrounded) {
  Alignment out;
  for (size_t i = 0; i < unrounded.size(); ++i) {
    if (!std::isfinite(unrounded[i])) throw Error("kokoro: the weights give durations that are not finite");
    const auto frames = static_cast<int32_t>(std::max(1.0f, std::nearbyint(unrounded[i])));
    out.frames.push_back(frames);
    out.steps.insert(out.steps.end(), static_cast<size_t>(frames), static_cast<int32_t>(i));
  }
  return out;
}

Array ids_array(std::span<const int32_t> ids, Device device) {
  return from_host(ids.data(), {static_cast<int64_t>(ids.size())}, DType::int32, device);
}

}  // namespace

Utterance Kokoro::say(std::span<const int32_t> ids, std::span<const float> style, double speed, const NoiseSeed& noise,
                      KokoroStages* stages) const {
  constexpr const char* kOp = "Kokoro::say";
  const Networks& net = *networks_;
  const auto count = static_cast<int64_t>(ids.size());
  if (count == 0 || count > net.config.max_phonemes())
    throw ArgumentError(kOp, "ids", "have 1 to " + std::to_string(net.config.max_phonemes()) + " phonemes",
                        std::to_string(count));
  if (std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= net.config.n_token; }))
    throw ArgumentError(kOp, "ids", "be below " + std::to_string(net.config.n_token), "another id");
  if (static_cast<int64_t>(style.size()) != kStyleWidth)
    throw ShapeError(kOp, "style", "have 256 values", std::to_string(style.size()));
  if (!(speed >= 0.1 && speed <= 10)) throw ArgumentError(kOp, "speed", "be 0.1 to 10", std::to_string(speed));

  std::vector<int32_t> padded(1, 0);
  padded.insert(padded.end(), ids.begin(), ids.end());
  padded.push_back(0);
  const Array tokens = ids_array(padded, device());
  const int64_t half = net.config.style_dim;
  const Array both = astype(from_host(style.data(), {1, kStyleWidth}, DType::float32, device()), dtype());
  const Array decoder_style = both.narrow(1, 0, half), prosody_style = both.narrow(1, half, half);

  const Array prosody_styles = net.prosody.styles(prosody_style);
  const Array bert = net.albert(tokens);
  const Array encoded = net.encoder(bert);
  const Array d = net.prosody.encode(encoded, prosody_style, prosody_styles);
  const Array durations = net.prosody.durations(d);
  const Array text = net.text(tokens);

  Utterance out;
  out.unrounded.resize(padded.size());
  to_host(out.unrounded.data(), durations, kOp);
  for (float& frames : out.unrounded) frames = static_cast<float>(frames / speed);
  Alignment alignment = align(out.unrounded);
  out.frames = std::move(alignment.frames);

  const Array steps = ids_array(alignment.steps, device());
  const Prosody::Curves curves = net.prosody.curves(embedding(d, steps), prosody_styles);
  const Array aligned = embedding(text, steps).expand_dims(0).permute({0, 2, 1});
  const Array decoder_styles = net.decoder.styles(decoder_style);
  const Decoder::Features features = net.decoder.features(aligned, curves, decoder_styles);
  const int64_t points = curves.f0.shape(2);
  const Array f0 = astype(curves.f0, DType::float32).reshape_view({points});
  out.audio = net.decoder.generator()(features.decoded, f0, decoder_styles, noise);
  if (stages != nullptr)
    *stages = {bert,
               encoded,
               d,
               f0,
               astype(curves.energy, DType::float32).reshape_view({points}),
               text,
               features.encoded.squeeze(0),
               features.decoded.squeeze(0)};
  return out;
}

}  // namespace gpukit::tts
