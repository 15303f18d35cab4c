#include "gpukit/models/tts/speaker.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/models/tts/speech_audio.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/text/english/letters.h"

namespace gpukit::tts {

namespace {

constexpr int64_t kFade = 120;  // samples: 5 ms

LexiconPaths find_lexicons(const std::string& folder, const std::string& given) {
  const auto in = [](const std::string& place) {
    const auto path = [&](const char* name) {
      std::string file = files::join(place, name);
      return files::is_file(file) ? file : std::string();
    };
    return LexiconPaths{path("us_gold.json"), path("us_silver.json")};
  };
  if (!given.empty()) {
    const LexiconPaths found = in(given);
    if (found.gold.empty() && found.silver.empty())
      throw NotFoundError("no us_gold.json or us_silver.json in " + given);
    return found;
  }
  for (const std::string& place :
       {folder, files::join(folder, "lexicons"), files::join(files::join(folder, ".."), "kokoro-g2p-misaki")}) {
    LexiconPaths found = in(place);
    if (!found.gold.empty() || !found.silver.empty()) return found;
  }
  return {};
}

}  // namespace

text::english::Dialect dialect_of(std::string_view voice) {
  const size_t slash = voice.find_last_of("/\\");
  const std::string_view name = slash == voice.npos ? voice : voice.substr(slash + 1);
  return name.starts_with('b') ? text::english::Dialect::british : text::english::Dialect::american;
}

Speaker Speaker::open(const std::string& folder, Device device, DType dtype, const std::string& lexicons) {
  LexiconPaths paths = find_lexicons(folder, lexicons);
  Kokoro networks = Kokoro::open(folder, device, dtype);
  return Speaker(
      std::shared_ptr<const State>(new State{std::move(networks), VoiceFolder(folder), std::move(paths), {}, {}}));
}

Script Speaker::script(std::string_view text, text::english::Dialect dialect, Cut cut) const {
  std::call_once(state_->once, [&] {
    state_->lexicon = std::make_shared<const text::english::Lexicon>(
        text::english::Lexicon::open(state_->paths.gold, state_->paths.silver));
  });
  text::english::Pronunciation said = text::english::Phonemizer(state_->lexicon, dialect)(text);
  Script script{std::move(said.text), std::move(said.phonemes), {}, std::move(said.guessed), std::move(said.skipped)};
  add_pieces(script, cut);
  return script;
}

Script Speaker::script_of_phonemes(std::string_view phonemes, Cut cut) const {
  Script script;
  script.phonemes = phonemes;
  add_pieces(script, cut);
  return script;
}

void Speaker::add_pieces(Script& script, Cut cut) const {
  const int64_t limit = networks().config().max_phonemes();
  for (std::string& phonemes : cut == Cut::whole ? text::english::cut_phonemes(script.phonemes, limit)
                                                 : text::english::cut_for_streaming(script.phonemes, limit)) {
    std::vector<int32_t> ids = networks().vocabulary().ids(phonemes, &script.skipped);
    // Marks alone would be noise without a word.
    const std::u32string codes = text::english::decode_utf8(phonemes);
    const bool spoken = std::any_of(codes.begin(), codes.end(), [](char32_t c) {
      return text::english::is_vowel_sound(c) || text::english::is_consonant_sound(c) || (c >= U'a' && c <= U'z');
    });
    if (!ids.empty() && spoken) script.pieces.push_back({std::move(phonemes), std::move(ids)});
  }
}

Array Speaker::say(const Script& script, int64_t piece, const Voice& voice, const SpeechOptions& options) const {
  const auto count = static_cast<int64_t>(script.pieces.size());
  if (piece < 0 || piece >= count) throw OutOfRangeError("Speaker::say", piece, count);
  const std::vector<int32_t>& ids = script.pieces[static_cast<size_t>(piece)].ids;
  const NoiseSeed noise{options.seed, static_cast<uint64_t>(piece)};
  const Array audio = networks()
                          .say(ids, {voice.row(static_cast<int64_t>(ids.size())), static_cast<size_t>(kStyleWidth)},
                               options.speed, noise)
                          .audio;
  fade_ends(audio, kFade);
  if (options.limit_peak) limit_peak(audio);
  return audio;
}

Array Speaker::say(const Script& script, const Voice& voice, const SpeechOptions& options) const {
  if (script.pieces.empty())
    throw ArgumentError("synthesize: the text has nothing that can be spoken" +
                        std::string(script.skipped.empty() ? "" : "; skipped: " + script.skipped[0]));
  std::vector<Array> parts;
  SpeechOptions each = options;
  each.limit_peak = false;
  for (int64_t i = 0; i < static_cast<int64_t>(script.pieces.size()); ++i) {
    runtime::check_interrupt();
    parts.push_back(say(script, i, voice, each));
  }
  const Array audio = parts.size() == 1 ? parts[0] : join_audio(parts);
  if (options.limit_peak) limit_peak(audio);
  return audio;
}

}  // namespace gpukit::tts
