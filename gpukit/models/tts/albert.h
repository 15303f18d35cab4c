// The text model of Kokoro: one transformer layer that runs several times (ALBERT), and its projection.
#pragma once

#include "gpukit/models/tts/kokoro_config.h"
#include "gpukit/models/tts/parts.h"

namespace gpukit::tts {

class Albert {
 public:
  Albert(const Loader& loader, const KokoroConfig& config);
  /// ids int32 [steps] -> out [steps, hidden].
  void operator()(const Array& ids, const Array& out) const;

 private:
  struct Norm {
    Array gamma, beta;
    void operator()(const Array& x, const Array& out) const;
  };
  static Norm norm(const Loader& loader, const std::string& name, int64_t width);

  int64_t heads_, layers_;
  Array words_, positions_;  // with the one token type added to the positions
  Norm norm_, attention_norm_, full_norm_;
  Linear mapping_, qkv_, dense_, ffn_, ffn_output_;
};

}  // namespace gpukit::tts
