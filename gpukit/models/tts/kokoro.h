// Kokoro-82M: phonemes and a style to speech at 24 kHz.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpukit/models/tts/decoder.h"
#include "gpukit/models/tts/kokoro_config.h"
#include "gpukit/models/tts/voice.h"

namespace gpukit::tts {

/// What the networks hand on, for tests: all on the model's device.
struct KokoroStages {
  Array bert, encoded, d;         // [steps, 768], [steps, 512], [steps, 640]
  Array f0, energy;               // [2 frames]
  Array text;                     // [steps, 512]
  Array decoder_in, decoder_out;  // [1024, frames], [512, 2 frames]
};

/// What the networks know of a text before they speak: all on the model's device, in its dtype but for durations.
struct ReadText {
  Array bert, encoded, d;  // [steps, 768], [steps, 512], [steps, 640]
  Array text;              // [steps, 512]
  Array styles;            // [1, values] for the norms of the curves
  Array durations;         // float32 [steps]: frames at speed 1
};

struct Utterance {
  Array audio;                   // float32 [600 frames], on the model's device
  std::vector<float> unrounded;  // frames of each id, pads included, before rounding
  std::vector<int32_t> frames;   // rounded, at least 1
};

class Kokoro {
 public:
  /// A folder with config.json and SafeTensors in the names of the original checkpoint. `dtype` is float32, float16 or
  /// bfloat16. Throws FileError, FormatError, NotFoundError naming the tensor, DTypeError, OutOfMemoryError.
  static Kokoro open(const std::string& folder, Device device, DType dtype);

  const KokoroConfig& config() const;
  const Vocabulary& vocabulary() const;
  Device device() const;
  DType dtype() const;

  /// ids without pads, at most config().max_phonemes(); `style` has kStyleWidth values; `speed` is 0.1 to 10.
  struct Request {
    std::span<const int32_t> ids;
    std::span<const float> style;
    double speed = 1.0;
    NoiseSeed noise = {};
  };

  /// Waits once, for the durations, which decide how much follows. The same arguments give the same bits. Throws
  /// ArgumentError, and Error where weights give no finite durations.
  Utterance say(const Request& request, KokoroStages* stages = nullptr) const;
  /// Several of any lengths, each with the bits that it has alone. On a GPU they run beside each other, each on a
  /// stream of its own, and are waited for once together; the current stream goes on behind all of them.
  std::vector<Utterance> say(std::span<const Request> requests) const;

  /// The halves of say(), each of which a graph can capture: they allocate nothing and wait for nothing. ids are int32
  /// [steps] with a pad (0) at both ends, style is [1, kStyleWidth] in dtype(). Throw ShapeError, DTypeError,
  /// DeviceError.
  ReadText room_for_text(int64_t steps) const;
  Array room_for_audio(int64_t frames) const;
  void read(const Array& ids, const Array& style, const ReadText& out) const;
  /// steps_of_frames is int32 [frames]: the step that each frame is of, ascending. audio is float32 [600 frames].
  void speak(const ReadText& text, const Array& steps_of_frames, const Array& style, const NoiseSeed& noise,
             const Array& audio, KokoroStages* stages = nullptr) const;

  /// The decoder alone: text [1, hidden_dim, frames], f0 and energy [2 frames], style [1, style_dim] of dtype() or
  /// float32 -> [1, upsample_initial_channel, 2 frames]. Throws ShapeError, DeviceError.
  Array decode(const Array& text, const Array& f0, const Array& energy, const Array& style) const;
  /// The vocoder alone: what decode() gives, f0 and style -> float32 samples.
  Array vocode(const Array& x, const Array& f0, const Array& style, const NoiseSeed& noise) const;

 private:
  struct Networks;
  struct Pending;
  void check(const Request& request) const;
  Pending begin(const Request& request) const;
  Utterance end(const Request& request, const Pending& pending, std::span<const float> durations,
                KokoroStages* stages) const;
  explicit Kokoro(std::shared_ptr<const Networks> networks) : networks_(std::move(networks)) {}
  std::shared_ptr<const Networks> networks_;
};

}  // namespace gpukit::tts
