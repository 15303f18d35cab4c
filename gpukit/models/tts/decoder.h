// From the encoded text and the curves to samples: the decoder and its generator of short spectra.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpukit/models/tts/prosody.h"

namespace gpukit::tts {

/// Where the noise of the source comes from; without a seed there is none.
struct NoiseSeed {
  std::optional<uint64_t> seed;
  uint64_t offset = 0;  // the pieces of one text differ
};

class Generator {
 public:
  Generator(Loader& loader, const KokoroConfig& config);
  /// x [1, channels, 2 frames], f0 [2 frames] in float32 -> float32 samples, out [num_samples(2 frames)].
  void operator()(const Array& x, const Array& f0, const Array& styles, const NoiseSeed& noise, const Array& out) const;
  int64_t num_samples(int64_t points) const { return points * step_; }
  /// What a call for that many values of f0 works in, about.
  int64_t workspace_bytes(int64_t points, DType dtype) const;

 private:
  struct Unit {
    StyleSlot norm1, norm2;
    Array alpha1, alpha2;  // [channels]
    Conv conv1, conv2;
  };
  using ResBlock = std::vector<Unit>;
  struct Stage {
    Conv up, noise_conv;
    ResBlock noise_block;
    std::vector<ResBlock> blocks;
  };
  static ResBlock block(Loader& loader, const std::string& name, int64_t channels, int64_t taps,
                        const std::vector<int64_t>& dilations);
  static void run(const ResBlock& block, const Array& x, const Array& styles, const Array& out);
  Array source_spectrum(const Array& f0, const NoiseSeed& noise, Temporaries& room) const;

  int64_t n_fft_, hop_, step_, rate_;
  std::vector<float> mix_;
  float mix_bias_ = 0;
  std::vector<Stage> stages_;
  Conv post_;
};

class Decoder {
 public:
  Decoder(Loader& loader, const KokoroConfig& config);
  Array styles(const Array& style, Temporaries& room) const { return table_(style, room); }
  struct Features {
    Array encoded, decoded;  // [1, inner, frames], [1, upsample_initial_channel, 2 frames]
  };
  /// text [1, hidden, frames].
  Features features(const Array& text, const Prosody::Curves& curves, const Array& styles, Temporaries& room) const;
  const Generator& generator() const { return generator_; }

 private:
  Conv f0_, energy_, text_;
  AdainBlock encode_;
  std::vector<AdainBlock> decode_;
  Generator generator_;
  StyleTable table_;
};

}  // namespace gpukit::tts
