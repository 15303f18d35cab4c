// How long each phoneme lasts, and the curves of pitch and energy; and the text encoder beside them.
#pragma once

#include <vector>

#include "gpukit/models/tts/kokoro_config.h"
#include "gpukit/models/tts/parts.h"

namespace gpukit::tts {

/// A residual block whose norms take a style; one form doubles the steps.
class AdainBlock {
 public:
  AdainBlock(Loader& loader, const std::string& name, int64_t in, int64_t out, bool upsample = false);
  /// [1, in, steps] -> [1, out, steps or 2 steps].
  Array operator()(const Array& x, const Array& styles, Temporaries& room) const;

 private:
  StyleSlot norm1_, norm2_;
  Conv conv1_, conv2_, pool_, shortcut_;
  bool upsample_, projects_;
};

class TextEncoder {
 public:
  TextEncoder(const Loader& loader, const KokoroConfig& config);
  /// ids int32 [steps] -> out [steps, hidden].
  void operator()(const Array& ids, const Array& out) const;

 private:
  struct Layer {
    Conv conv;
    Array gamma, beta;
  };
  Array table_;
  std::vector<Layer> layers_;
  BiLstm lstm_;
};

class Prosody {
 public:
  Prosody(Loader& loader, const KokoroConfig& config);

  struct Curves {
    Array f0, energy;  // [1, 1, 2 frames], f0 in Hz
  };
  /// style [1, style_dim] -> what the other calls take.
  void styles(const Array& style, const Array& out) const { table_.projection.into(style, out); }
  int64_t num_styles() const { return table_.projection.weight.rows(); }
  /// encoded [steps, hidden] and the style -> d [steps, hidden + style_dim].
  void encode(const Array& encoded, const Array& style, const Array& styles, const Array& d) const;
  /// d -> frames of each step before speed and rounding, float32 [steps].
  void durations(const Array& d, const Array& out) const;
  /// d at each frame, [frames, hidden + style_dim] -> the curves.
  Curves curves(const Array& d, const Array& styles, Temporaries& room) const;

 private:
  struct Layer {
    BiLstm lstm;
    StyleSlot norm;
  };
  std::vector<Layer> layers_;
  BiLstm lstm_, shared_;
  Linear duration_;
  std::vector<AdainBlock> f0_, energy_;
  Conv f0_out_, energy_out_;
  StyleTable table_;
};

}  // namespace gpukit::tts
