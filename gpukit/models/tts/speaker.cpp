#include "gpukit/models/tts/speaker.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/models/tts/speech_audio.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/text/english/letters.h"

namespace gpukit::tts {

namespace {

constexpr int64_t kFade = 120;                         // samples: 5 ms
constexpr size_t kAtOnce = 8, kPhonemesAtOnce = 1024;  // of a long text: they need memory side by side

/// Seconds that the networks make of the last mark of some phonemes.
double pause_after(std::u32string_view codes) {
  static constexpr std::u32string_view kClosing = U" )]}\"'\u201d\u2019\u00bb";
  const size_t end = codes.find_last_not_of(kClosing);
  switch (end == codes.npos ? U' ' : codes[end]) {
    case U'.':
    case U'!':
    case U'?':
    case U'\u2026': return 0.36;
    case U':':
    case U';':
    case U'\u2014': return 0.22;
    case U',': return 0.12;
    default: return 0;
  }
}

}  // namespace

text::english::Dialect dialect_of(std::string_view voice) {
  size_t british = 0, all = 0;
  for (size_t at = 0; at <= voice.size(); ++all) {
    const size_t end = std::min(voice.find_first_of("+,", at), voice.size());
    std::string_view name = voice.substr(at, end - at);
    if (const size_t slash = name.find_last_of("/\\"); slash != name.npos) name = name.substr(slash + 1);
    british += name.starts_with("bf_") || name.starts_with("bm_") ? 1 : 0;
    at = end + 1;
  }
  return british == all ? text::english::Dialect::british : text::english::Dialect::american;
}

Speaker Speaker::open(const std::string& folder, Device device, DType dtype, const std::string& lexicons) {
  LexiconPaths paths = text::english::find_lexicons(folder, lexicons);
  Kokoro networks = Kokoro::open(folder, device, dtype);
  return Speaker(
      std::shared_ptr<const State>(new State{std::move(networks), VoiceFolder(folder), std::move(paths), {}, {}}));
}

Script Speaker::script(std::string_view text, text::english::Dialect dialect, Cut cut, bool normalise,
                       int64_t most) const {
  std::call_once(state_->once, [&] {
    state_->lexicon = std::make_shared<const text::english::Lexicon>(
        text::english::Lexicon::open(state_->paths.gold, state_->paths.silver));
  });
  text::english::Pronunciation said = text::english::Phonemizer(state_->lexicon, dialect)(text, normalise);
  Script script{std::move(said.text), std::move(said.phonemes), {}, std::move(said.guessed), std::move(said.skipped)};
  add_pieces(script, cut, most);
  return script;
}

Script Speaker::script_of_phonemes(std::string_view phonemes, Cut cut) const {
  Script script;
  script.phonemes = phonemes;
  add_pieces(script, cut);
  return script;
}

void Speaker::add_pieces(Script& script, Cut cut, int64_t most) const {
  const int64_t taken = networks().config().max_phonemes();
  const int64_t limit = most > 0 ? std::min(most, taken) : taken;
  for (std::string& phonemes : cut == Cut::whole ? text::english::cut_phonemes(script.phonemes, limit)
                                                 : text::english::cut_for_streaming(script.phonemes, limit)) {
    std::vector<int32_t> ids = networks().vocabulary().ids(phonemes, &script.skipped);
    // Marks alone would be noise without a word.
    const std::u32string codes = text::english::decode_utf8(phonemes);
    const bool spoken = std::any_of(codes.begin(), codes.end(), [](char32_t c) {
      return text::english::is_vowel_sound(c) || text::english::is_consonant_sound(c) || (c >= U'a' && c <= U'z');
    });
    if (!ids.empty() && spoken) script.pieces.push_back({std::move(phonemes), std::move(ids), pause_after(codes)});
  }
}

Kokoro::Request Speaker::request(const Script& script, size_t piece, const Voice& voice,
                                 const SpeechOptions& options) const {
  const std::vector<int32_t>& ids = script.pieces[piece].ids;
  const float* style = voice.row(static_cast<int64_t>(ids.size()));
  return {ids, {style, static_cast<size_t>(kStyleWidth)}, options.speed, {options.seed, static_cast<uint64_t>(piece)}};
}

Array Speaker::shaped(const Script& script, size_t piece, const Array& given, double speed) const {
  constexpr double kKept = 0.03;  // seconds around the sound, where it is softer than what counts as silence
  Array audio = given;
  const bool first = piece == 0, last = piece + 1 == script.pieces.size();
  if (!first || !last) {
    const auto samples = [&](double pause) {
      return static_cast<int64_t>(std::max(kKept, pause / speed / 2) *
                                  static_cast<double>(networks().config().sample_rate));
    };
    const Extent sound = extent_of_sound(audio);
    const int64_t begin = first ? 0 : std::max<int64_t>(0, sound.begin - samples(script.pieces[piece - 1].pause));
    const int64_t end =
        last ? audio.shape(0) : std::min(audio.shape(0), sound.end + samples(script.pieces[piece].pause));
    audio = audio.narrow(0, begin, end - begin);
  }
  fade_ends(audio, kFade);
  return audio;
}

Array Speaker::say(const Script& script, int64_t piece, const Voice& voice, const SpeechOptions& options) const {
  const auto count = static_cast<int64_t>(script.pieces.size());
  if (piece < 0 || piece >= count) throw OutOfRangeError("Speaker::say", piece, count);
  const auto index = static_cast<size_t>(piece);
  const Array audio =
      shaped(script, index, networks().say(request(script, index, voice, options)).audio, options.speed);
  if (options.limit_peak) limit_peak(audio);
  return audio;
}

Array Speaker::say(const Script& script, const Voice& voice, const SpeechOptions& options) const {
  if (script.pieces.empty())
    throw ArgumentError("synthesize: the text has nothing that can be spoken" +
                        std::string(script.skipped.empty() ? "" : "; skipped: " + script.skipped[0]));
  std::vector<Array> parts;
  while (parts.size() < script.pieces.size()) {
    runtime::check_interrupt();
    std::vector<Kokoro::Request> requests;
    size_t phonemes = 0;
    for (size_t i = parts.size(); i < script.pieces.size() && requests.size() < kAtOnce; ++i) {
      phonemes += script.pieces[i].ids.size();
      if (!requests.empty() && phonemes > kPhonemesAtOnce) break;
      requests.push_back(request(script, i, voice, options));
    }
    for (const Utterance& said : networks().say(requests))
      parts.push_back(shaped(script, parts.size(), said.audio, options.speed));
  }
  const Array audio = parts.size() == 1 ? parts[0] : join_audio(parts);
  if (options.limit_peak) limit_peak(audio);
  return audio;
}

}  // namespace gpukit::tts
