// Text to speech: the English front end, the voices and the networks together.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/models/tts/kokoro.h"
#include "gpukit/text/english/phonemizer.h"

namespace gpukit::tts {

/// What will be said, in pieces that the networks take whole.
struct Script {
  struct Piece {
    std::string phonemes;
    std::vector<int32_t> ids;
    double pause = 0;  // seconds of silence that its last mark stands for, at speed 1
  };
  std::string text, phonemes;                 // normalised; all of it
  std::vector<Piece> pieces;                  // none where nothing can be said
  std::vector<std::string> guessed, skipped;  // as of Pronunciation; skipped also has phonemes without an id
};

enum class Cut { whole, soon };  // pieces as long as they may be, or a short first one

struct SpeechOptions {
  double speed = 1.0;
  std::optional<uint64_t> seed = 0;  // of the noise in the voice; none: no noise
  bool limit_peak = true;            // scale what would be louder than 0 dB
};

using text::english::LexiconPaths;

class Speaker {
 public:
  /// Lexicons: us_gold.json and us_silver.json in `lexicons`, or where that is empty in the model's folder, in its
  /// folder `lexicons`, or in kokoro-g2p-misaki beside it; without them the rules of spelling say every word. Throws
  /// as Kokoro::open does.
  static Speaker open(const std::string& folder, Device device, DType dtype, const std::string& lexicons = {});

  const Kokoro& networks() const { return state_->networks; }
  const VoiceFolder& voices() const { return state_->voices; }
  const LexiconPaths& lexicons() const { return state_->paths; }

  /// Pieces of at most `most` phonemes; 0, and more than the networks take, is as many as they take. Never throws for
  /// any text; the lexicons are read by the first call, which throws for damaged ones.
  Script script(std::string_view text, text::english::Dialect dialect, Cut cut = Cut::whole, bool normalise = true,
                int64_t most = 0) const;
  /// The same of phonemes.
  Script script_of_phonemes(std::string_view phonemes, Cut cut = Cut::whole) const;

  /// Samples of one piece, faded at its ends. Where another one is before or behind it, the silence there is cut to
  /// what the mark between them stands for. Throws OutOfRangeError and as Kokoro::say does.
  Array say(const Script& script, int64_t piece, const Voice& voice, const SpeechOptions& options) const;
  /// All pieces one after the other. Throws ArgumentError where there is nothing to say.
  Array say(const Script& script, const Voice& voice, const SpeechOptions& options) const;

 private:
  struct State {
    Kokoro networks;
    VoiceFolder voices;
    LexiconPaths paths;
    mutable std::once_flag once;
    mutable std::shared_ptr<const text::english::Lexicon> lexicon;
  };
  explicit Speaker(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  void add_pieces(Script& script, Cut cut, int64_t most = 0) const;
  Kokoro::Request request(const Script& script, size_t piece, const Voice& voice, const SpeechOptions& options) const;
  Array shaped(const Script& script, size_t piece, const Array& audio, double speed) const;
  std::shared_ptr<const State> state_;
};

/// Of a voice's name or path: bf_ and bm_ are British, and a blend where all its voices are.
text::english::Dialect dialect_of(std::string_view voice);

}  // namespace gpukit::tts
