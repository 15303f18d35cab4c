#include "gpukit/models/tts/kokoro.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/number_text.h"
#include "gpukit/models/tts/albert.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_group.h"

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
  if (!files::is_folder(folder))
    throw FileError(folder, ENOENT,
                    "a model of Kokoro is a folder with config.json, SafeTensors and voices; cannot open");
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

/// A stream for each request, so that they run beside each other; one request stays on the current one.
class Lanes {
 public:
  Lanes(Device device, size_t count) : device_(device) {
    if (count < 2 || device.kind != DeviceKind::cuda) return;
    for (size_t i = 0; i < count; ++i) {
      sessions_.push_back(runtime::current_session().with_stream(runtime::new_stream(device, 0)));
      order_after_current(i);
    }
  }

  template <typename F>
  void run(size_t i, const F& work) const {
    if (sessions_.empty()) return work();
    const runtime::SessionGuard guard(sessions_[i]);
    work();
  }
  /// The current stream goes on after all of them.
  void join() const {
    for (const runtime::Session& session : sessions_)
      runtime::order_after(*runtime::resolve(session.streams.front()), *runtime::borrow_stream(device_));
  }

 private:
  void order_after_current(size_t i) const {
    for (const std::shared_ptr<driver::Stream>& stream : sessions_[i].streams)
      if (stream->device() == device_)
        runtime::order_after(*runtime::borrow_stream(device_), *runtime::resolve(stream));
  }

  Device device_;
  std::vector<runtime::Session> sessions_;
};

}  // namespace

/// A text that was read, and the style it will be spoken in.
struct Kokoro::Pending {
  ReadText text;
  Array style;
};

void Kokoro::check(const Request& r) const {
  constexpr const char* kOp = "Kokoro::say";
  const KokoroConfig& c = config();
  const auto count = static_cast<int64_t>(r.ids.size());
  if (count == 0 || count > c.max_phonemes())
    throw ArgumentError(kOp, "ids", "have 1 to " + std::to_string(c.max_phonemes()) + " phonemes",
                        std::to_string(count));
  if (std::any_of(r.ids.begin(), r.ids.end(), [&](int32_t id) { return id < 0 || id >= c.n_token; }))
    throw ArgumentError(kOp, "ids", "be below " + std::to_string(c.n_token), "another id");
  if (static_cast<int64_t>(r.style.size()) != kStyleWidth)
    throw ShapeError(kOp, "style", "have 256 values", std::to_string(r.style.size()));
  if (!(r.speed >= 0.1 && r.speed <= 10)) throw ArgumentError(kOp, "speed", "be 0.1 to 10", number_text(r.speed));
}

ReadText Kokoro::room_for_text(int64_t steps) const {
  const KokoroConfig& c = config();
  const auto empty = [&](const Dims& shape) { return Array::empty(shape, dtype(), device()); };
  return {empty({steps, c.plbert_hidden_size}),        empty({steps, c.hidden_dim}),
          empty({steps, c.hidden_dim + c.style_dim}),  empty({steps, c.hidden_dim}),
          empty({1, networks_->prosody.num_styles()}), Array::empty({steps}, DType::float32, device())};
}

Array Kokoro::room_for_audio(int64_t frames) const {
  return Array::empty({networks_->decoder.generator().num_samples(2 * frames)}, DType::float32, device());
}

void Kokoro::read(const Array& ids, const Array& style, const ReadText& out) const {
  constexpr const char* kOp = "Kokoro::read";
  const Networks& net = *networks_;
  check_dtype(kOp, "ids", ids, DType::int32);
  check_ndim(kOp, "ids", ids, 1);
  if (ids.shape(0) < 3 || ids.shape(0) > config().max_phonemes() + 2)
    throw ShapeError(kOp, "ids", "have 1 to " + std::to_string(config().max_phonemes()) + " phonemes and two pads",
                     ids.shape().str());
  check_dtype(kOp, "style", style, dtype());
  check_shape(kOp, "style", style, {1, kStyleWidth});
  if (out.durations.shape(0) != ids.shape(0))
    throw ShapeError("Kokoro::read: out is of " + std::to_string(out.durations.shape(0)) + " steps, ids are " +
                     std::to_string(ids.shape(0)));
  const Array own = style.narrow(1, net.config.style_dim, net.config.style_dim);
  net.prosody.styles(own, out.styles);
  net.albert(ids, out.bert);
  net.encoder.into(out.bert, out.encoded);
  net.prosody.encode(out.encoded, own, out.styles, out.d);
  net.prosody.durations(out.d, out.durations);
  net.text(ids, out.text);
}

void Kokoro::speak(const ReadText& text, const Array& steps_of_frames, const Array& style, const NoiseSeed& noise,
                   const Array& audio, KokoroStages* stages) const {
  constexpr const char* kOp = "Kokoro::speak";
  const Networks& net = *networks_;
  check_dtype(kOp, "steps_of_frames", steps_of_frames, DType::int32);
  check_ndim(kOp, "steps_of_frames", steps_of_frames, 1);
  if (steps_of_frames.size() == 0) throw ShapeError(kOp, "steps_of_frames", "have at least one frame", "none");
  check_dtype(kOp, "style", style, dtype());
  check_shape(kOp, "style", style, {1, kStyleWidth});
  const int64_t frames = steps_of_frames.shape(0), points = 2 * frames;
  check_dtype(kOp, "audio", audio, DType::float32);
  check_shape(kOp, "audio", audio, {net.decoder.generator().num_samples(points)});
  // What the curves and the decoder keep of a frame: about 48 rows of the text encoder's width.
  const int64_t of_frame = 48 * config().hidden_dim * itemsize(dtype());
  reserve_workspace(kOp, device(), frames * of_frame + net.decoder.generator().workspace_bytes(points, dtype()));
  Temporaries room(kOp);
  const auto at_frames = [&](const Array& rows) {
    const Array out = room.empty({frames, rows.shape(1)}, dtype(), device());
    embedding(rows, steps_of_frames, &out);
    return out;
  };
  const Prosody::Curves curves = net.prosody.curves(at_frames(text.d), text.styles, room);
  const Array aligned = at_frames(text.text).expand_dims(0).permute({0, 2, 1});
  const Array styles = net.decoder.styles(style.narrow(1, 0, net.config.style_dim), room);
  const Decoder::Features features = net.decoder.features(aligned, curves, styles, room);
  const Array f0 = astype(curves.f0, DType::float32, room).reshape_view({points});
  net.decoder.generator()(features.decoded, f0, styles, noise, audio);
  if (stages == nullptr) return;
  const Array energy = astype(curves.energy, DType::float32).reshape_view({points});
  *stages = {text.bert,
             text.encoded,
             text.d,
             copy(f0),
             copy(energy),
             text.text,
             copy(features.encoded.squeeze(0)),
             copy(features.decoded.squeeze(0))};
}

Kokoro::Pending Kokoro::begin(const Request& request) const {
  std::vector<int32_t> padded(1, 0);
  padded.insert(padded.end(), request.ids.begin(), request.ids.end());
  padded.push_back(0);
  Pending out{room_for_text(static_cast<int64_t>(padded.size())),
              astype(from_host(request.style.data(), {1, kStyleWidth}, DType::float32, device()), dtype())};
  read(ids_array(padded, device()), out.style, out.text);
  return out;
}

Utterance Kokoro::end(const Request& request, const Pending& pending, std::span<const float> durations,
                      KokoroStages* stages) const {
  Utterance out;
  for (const float frames : durations) out.unrounded.push_back(static_cast<float>(frames / request.speed));
  Alignment alignment = align(out.unrounded);
  out.frames = std::move(alignment.frames);
  out.audio = room_for_audio(static_cast<int64_t>(alignment.steps.size()));
  speak(pending.text, ids_array(alignment.steps, device()), pending.style, request.noise, out.audio, stages);
  return out;
}

Utterance Kokoro::say(const Request& request, KokoroStages* stages) const {
  check(request);
  const Pending pending = begin(request);
  std::vector<float> durations(request.ids.size() + 2);
  to_host(durations.data(), pending.text.durations, "Kokoro::say");
  return end(request, pending, durations, stages);
}

std::vector<Utterance> Kokoro::say(std::span<const Request> requests) const {
  if (requests.empty()) return {};
  for (const Request& request : requests) check(request);
  const Lanes lanes(device(), requests.size());
  std::vector<Pending> pending(requests.size());
  std::vector<Array> counts;
  for (size_t i = 0; i < requests.size(); ++i) {
    lanes.run(i, [&] { pending[i] = begin(requests[i]); });
    counts.push_back(pending[i].text.durations);
  }
  lanes.join();
  const Array all = concat(counts);
  std::vector<float> durations(static_cast<size_t>(all.size()));
  to_host(durations.data(), all, "Kokoro::say");
  std::vector<Utterance> out(requests.size());
  std::span<const float> left = durations;
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t steps = requests[i].ids.size() + 2;
    lanes.run(i, [&] { out[i] = end(requests[i], pending[i], left.first(steps), nullptr); });
    left = left.subspan(steps);
  }
  lanes.join();
  return out;
}

Array Kokoro::decode(const Array& text, const Array& f0, const Array& energy, const Array& style) const {
  constexpr const char* kOp = "Decoder";
  check_ndim(kOp, "asr", text, 3);
  const int64_t points = 2 * text.shape(2);
  check_shape(kOp, "asr", text, {1, config().hidden_dim, text.shape(2)});
  check_shape(kOp, "F0", f0, {points});
  check_shape(kOp, "N", energy, {points});
  check_shape(kOp, "style", style, {1, config().style_dim});
  Temporaries room(kOp);
  const auto curve = [&](const Array& x) { return astype(x, dtype()).reshape_view({1, 1, points}); };
  const Array styles = networks_->decoder.styles(astype(style, dtype()), room);
  return copy(networks_->decoder.features(astype(text, dtype()), {curve(f0), curve(energy)}, styles, room).decoded);
}

Array Kokoro::vocode(const Array& x, const Array& f0, const Array& style, const NoiseSeed& noise) const {
  constexpr const char* kOp = "ISTFTNet";
  check_ndim(kOp, "x", x, 3);
  check_shape(kOp, "x", x, {1, config().upsample_initial_channel, x.shape(2)});
  check_shape(kOp, "F0", f0, {x.shape(2)});
  check_shape(kOp, "style", style, {1, config().style_dim});
  Temporaries room(kOp);
  const Array styles = networks_->decoder.styles(astype(style, dtype()), room);
  const Generator& generator = networks_->decoder.generator();
  const Array audio = Array::empty({generator.num_samples(f0.shape(0))}, DType::float32, device());
  generator(astype(x, dtype()), astype(f0, DType::float32), styles, noise, audio);
  return audio;
}

}  // namespace gpukit::tts
