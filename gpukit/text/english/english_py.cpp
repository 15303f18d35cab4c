#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/error.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/path.h"
#include "gpukit/text/english/espeak.h"
#include "gpukit/text/english/normalize.h"
#include "gpukit/text/english/phonemizer.h"

namespace gpukit {
namespace {

using text::english::Dialect;
using text::english::Phonemizer;
using text::english::Pronunciation;

Dialect to_dialect(const std::string& lang) {
  if (lang == "a") return Dialect::american;
  if (lang == "b") return Dialect::british;
  throw ArgumentError("Phonemizer", "lang", "be 'a' (American) or 'b' (British English)", "'" + lang + "'");
}

}  // namespace

void bind_english(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_english", "The English front end of pygpukit.tts; internal.");
  nb::class_<Pronunciation>(m, "Pronunciation", "What Phonemizer says about a text.")
      .def_ro("phonemes", &Pronunciation::phonemes, "Phonemes, with the punctuation that makes pauses.")
      .def_ro("text", &Pronunciation::text, "The normalised text.")
      .def_ro("guessed", &Pronunciation::guessed, "Words of no lexicon, said by the rules of spelling.")
      .def_ro("skipped", &Pronunciation::skipped, "Characters that are not spoken: emoji, other scripts.");
  nb::class_<Phonemizer>(m, "Phonemizer", "English text to phonemes, with lexicons or by the rules of spelling.")
      .def(
          "__init__",
          [](Phonemizer* self, StringArg gold, StringArg silver, StringArg lang) {
            const std::string first = to_text("Phonemizer", "gold", gold),
                              second = to_text("Phonemizer", "silver", silver);
            const Dialect dialect = to_dialect(to_text("Phonemizer", "lang", lang));
            auto lexicon = in_scope([&] {
              return std::make_shared<const text::english::Lexicon>(text::english::Lexicon::open(first, second));
            });
            new (self) Phonemizer(std::move(lexicon), dialect);
          },
          "gold"_a = "", "silver"_a = "", "lang"_a = "a", "Paths of the lexicons; an empty one is left out.")
      .def(
          "__call__",
          [](const Phonemizer& self, StringArg text, bool normalize) {
            const std::string value = to_text("Phonemizer", "text", text);
            return in_scope([&] { return self(value, normalize); });
          },
          "text"_a, "normalize"_a = true, "The pronunciation of a text.");
  m.def(
      "find_lexicons",
      [](PathArg model, Shown<"pygpukit.typing.PathLike | None"> folder) {
        const std::string place = to_path("find_lexicons", model);
        const std::string given = folder.is_none() ? std::string() : to_path("find_lexicons", folder);
        if (!folder.is_none() && given.empty())
          throw ArgumentError("find_lexicons", "lexicons", "be a folder", "an empty path");
        return in_scope([&] {
          const text::english::LexiconPaths found = text::english::find_lexicons(place, given);
          return std::pair(found.gold, found.silver);
        });
      },
      "model"_a, "folder"_a = nb::none(), "Paths of the gold and the silver lexicon, empty for none.");
  m.def(
      "espeak_clauses",
      [](StringArg text, bool normalize) {
        const std::string value = to_text("espeak_clauses", "text", text);
        return in_scope([&] {
          std::vector<std::string> skipped;
          std::vector<std::pair<std::string, bool>> clauses;
          for (text::english::Clause& c : text::english::clauses_of(value, normalize, skipped))
            clauses.emplace_back(std::move(c.text), c.said);
          return std::pair(std::move(clauses), std::move(skipped));
        });
      },
      "text"_a, "normalize"_a = true, "Words to be said (True) and what stays (False), and what is skipped.");
  m.def(
      "phonemes_of_espeak",
      [](StringArg ipa, StringArg lang) {
        const std::string value = to_text("phonemes_of_espeak", "ipa", ipa);
        const Dialect dialect = to_dialect(to_text("phonemes_of_espeak", "lang", lang));
        return in_scope([&] { return text::english::phonemes_of_espeak(value, dialect); });
      },
      "ipa"_a, "lang"_a = "a", "The IPA of espeak-ng in Kokoro's alphabet.");
  m.def(
      "normalize_text",
      [](StringArg text) {
        const std::string value = to_text("normalize_text", "text", text);
        return in_scope([&] { return text::english::normalize_around_overrides(value); });
      },
      "text"_a, "Numbers, money, times, dates, units, abbreviations, addresses and signs as words.");
  m.def(
      "split_sentences",
      [](StringArg text) {
        const std::string value = to_text("split_sentences", "text", text);
        return in_scope([&] { return text::english::split_sentences(value); });
      },
      "text"_a, "The sentences of a text with their punctuation.");
  m.def(
      "cut_phonemes",
      [](StringArg phonemes, IntArg limit) {
        const std::string value = to_text("cut_phonemes", "phonemes", phonemes);
        const int64_t most = to_int("cut_phonemes", "limit", limit);
        if (most < 1) throw ArgumentError("cut_phonemes", "limit", "be positive", std::to_string(most));
        return in_scope([&] { return text::english::cut_phonemes(value, most); });
      },
      "phonemes"_a, "limit"_a = 510, "Pieces of at most `limit` characters, cut where a pause is.");
}

}  // namespace gpukit
