#include "gpukit/text/english/letter_sounds.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/text/english/letters.h"

namespace gpukit::text::english {
namespace {

/// `letters` between `left` and `right` sound like `sounds` (see ipa()). In the contexts ^ is an end of the word,
/// V a vowel letter, C a consonant, E one of e, i, y; small letters are themselves. The first rule that fits is taken.
struct Rule {
  std::string_view left, letters, right, sounds;
};

/// Common words that no rule says; those of numbers among them.
constexpr std::pair<std::string_view, std::string_view> kIrregular[] = {
    {"of", "Vv"},           {"was", "wVz"},        {"were", "w3r"},        {"is", "1z"},          {"his", "h1z"},
    {"has", "h&z"},         {"as", "&z"},          {"one", "wVn"},         {"once", "wVns"},      {"two", "tu"},
    {"four", "fcr"},        {"eight", "At"},       {"eighth", "AtH"},      {"eighty", "Ati"},     {"eighteen", "Atin"},
    {"seven", "sEv@n"},     {"eleven", "1l'Ev@n"}, {"enough", "1n'Vf"},    {"foreign", "fcr@n"},  {"twelve", "twElv"},
    {"minus", "mIn@s"},     {"zero", "zirO"},      {"hundred", "hVndr@d"}, {"million", "m1lj@n"}, {"billion", "b1lj@n"},
    {"said", "sEd"},        {"says", "sEz"},       {"does", "dVz"},        {"done", "dVn"},       {"some", "sVm"},
    {"come", "kVm"},        {"love", "lVv"},       {"have", "h&v"},        {"give", "g1v"},       {"live", "l1v"},
    {"do", "du"},           {"who", "hu"},         {"whose", "huz"},       {"you", "ju"},         {"your", "jcr"},
    {"are", "ar"},          {"what", "wVt"},       {"where", "wEr"},       {"there", "DEr"},      {"their", "DEr"},
    {"they", "DA"},         {"people", "pip@l"},   {"any", "Eni"},         {"many", "mEni"},      {"been", "b1n"},
    {"very", "vEri"},       {"other", "VD@r"},     {"mother", "mVD@r"},    {"father", "faD@r"},   {"brother", "brVD@r"},
    {"with", "w1D"},        {"day", "dA"},         {"friend", "frEnd"},    {"water", "wct@r"},    {"great", "grAt"},
    {"only", "Onli"},       {"for", "fcr"},        {"from", "frVm"},       {"now", "nW"},         {"how", "hW"},
    {"month", "mVnH"},      {"money", "mVni"},     {"iron", "I@rn"},       {"island", "Il@nd"},   {"colonel", "k3rn@l"},
    {"business", "b1zn@s"}, {"women", "w1m@n"},    {"heart", "hart"},      {"answer", "&ns@r"},   {"sword", "scrd"},
    {"honest", "an@st"},    {"hour", "Wr"},        {"heir", "Er"},         {"choir", "kwIr"},     {"yacht", "jat"},
    {"receipt", "r1s'it"},  {"put", "pUt"},
};

constexpr Rule kRules[] = {
    // Letters that are not said, and voiced th.
    {"m", "b", "s^", ""},        {"m", "b", "ed^", ""},      {"m", "b", "ing^", ""},    {"", "bt", "^", "t"},
    {"", "bt", "s^", "t"},       {"m", "n", "^", ""},        {"m", "n", "s^", ""},      {"", "g", "m^", ""},
    {"^", "mn", "", "n"},        {"^", "pt", "", "t"},       {"^", "cz", "", "z"},      {"^", "ts", "", "s"},
    {"s", "t", "le^", ""},       {"s", "t", "les^", ""},     {"s", "t", "en^", ""},     {"s", "t", "ened^", ""},
    {"s", "t", "ening^", ""},    {"", "alm", "", "am"},      {"", "alf", "^", "&f"},    {"", "alv", "es^", "&v"},
    {"", "olk", "", "Ok"},       {"", "ould", "", "Ud"},     {"^wh", "o", "le", "O"},   {"^", "wh", "o", "h"},
    {"^r", "ough", "", "Vf"},    {"^t", "ough", "", "Vf"},   {"^c", "ough", "", "cf"},  {"^", "th", "at^", "D"},
    {"^", "th", "en^", "D"},     {"^", "th", "em^", "D"},    {"^", "th", "ese^", "D"},  {"^", "th", "eir", "D"},
    {"^", "th", "ey", "D"},      {"^", "th", "ere", "D"},    {"", "a", "the^", "A"},    {"^", "psych", "", "sIk"},
    {"", "ology", "^", "al@Ji"}, {"t", "en", "ing^", "@n"},  {"", "eign", "^", "An"},   {"^", "th", "is^", "D"},
    {"^", "th", "os", "D"},      {"^", "th", "us^", "D"},    {"^", "th", "ough^", "D"}, {"V", "th", "er^", "D"},
    {"V", "the", "^", "D"},      {"", "ows", "^", "Oz"},     {"^", "hon", "o", "an"},   {"", "sw", "er^", "s"},
    {"l", "augh", "", "&f"},     {"", "augh", "", "c"},      {"", "ation", "", "AS@n"}, {"", "au", "", "c"},
    {"", "aw", "V", "aw"},       {"", "aw", "", "c"},        {"", "air", "", "Er"},     {"", "ai", "", "A"},
    {"", "ay", "", "A"},         {"", "are", "^", "Er"},     {"w", "ar", "", "cr"},     {"", "ar", "", "ar"},
    {"", "all", "^", "cl"},      {"", "alk", "", "ck"},      {"C", "al", "^", "@l"},    {"C", "able", "^", "@b@l"},
    {"", "a", "ble", "A"},       {"VC", "age", "^", "1J"},   {"", "aste", "^", "Ast"},  {"", "ange", "^", "AnJ"},
    {"", "a", "Ce^", "A"},       {"", "a", "Ces^", "A"},     {"", "a", "Ced^", "A"},    {"", "a", "Cing^", "A"},
    {"", "ae", "", "i"},         {"", "aa", "", "a"},        {"", "ah", "^", "a"},      {"", "ah", "C", "a"},
    {"", "a", "^", "@"},         {"", "a", "CV", "a"},       {"", "a", "", "&"},        {"", "bb", "", "b"},
    {"m", "b", "^", ""},         {"", "b", "", "b"},         {"", "ch", "r", "k"},      {"", "ch", "l", "k"},
    {"", "ch", "", "C"},         {"", "ck", "", "k"},        {"", "cc", "E", "ks"},     {"", "cc", "", "k"},
    {"", "cian", "", "S@n"},     {"", "cial", "", "S@l"},    {"", "cious", "", "S@s"},  {"", "c", "E", "s"},
    {"", "c", "", "k"},          {"", "dge", "", "J"},       {"", "dg", "E", "J"},      {"", "dd", "", "d"},
    {"", "d", "", "d"},          {"", "eau", "", "O"},       {"", "ear", "", "1r"},     {"", "ea", "", "i"},
    {"", "eer", "", "1r"},       {"", "ee", "", "i"},        {"", "eigh", "", "A"},     {"", "ei", "", "I"},
    {"", "eu", "", "u"},         {"", "ew", "", "u"},        {"", "ey", "^", "i"},      {"", "ey", "", "A"},
    {"C", "ers", "^", "@rz"},    {"C", "er", "^", "@r"},     {"", "er", "C", "3r"},     {"", "er", "", "Er"},
    {"t", "ed", "^", "%d"},      {"d", "ed", "^", "%d"},     {"p", "ed", "^", "t"},     {"k", "ed", "^", "t"},
    {"s", "ed", "^", "t"},       {"f", "ed", "^", "t"},      {"h", "ed", "^", "t"},     {"VC", "ed", "^", "d"},
    {"s", "es", "^", "%z"},      {"z", "es", "^", "%z"},     {"h", "es", "^", "%z"},    {"c", "es", "^", "%z"},
    {"g", "es", "^", "%z"},      {"VC", "es", "^", "z"},     {"^C", "e", "^", "i"},     {"^CC", "e", "^", "i"},
    {"", "e", "^", ""},          {"C", "e", "ly^", ""},      {"C", "e", "ment", ""},    {"C", "e", "ness", ""},
    {"C", "e", "less", ""},      {"C", "e", "ful", ""},      {"C", "el", "^", "@l"},    {"C", "en", "^", "@n"},
    {"", "e", "Ce^", "i"},       {"^", "e", "CV", "i"},      {"", "eo", "", "iO"},      {"", "e", "a", "i"},
    {"", "e", "", "E"},          {"", "ff", "", "f"},        {"", "f", "", "f"},        {"", "gh", "^", ""},
    {"", "gh", "t", ""},         {"", "gh", "", "g"},        {"^", "gn", "", "n"},      {"", "gn", "^", "n"},
    {"", "gg", "", "g"},         {"", "gu", "E", "g"},       {"^", "gi", "CC", "g1"},   {"", "g", "E", "J"},
    {"", "g", "", "g"},          {"V", "h", "C", ""},        {"V", "h", "^", ""},       {"", "h", "", "h"},
    {"", "igh", "", "I"},        {"", "ied", "^", "id"},     {"", "ies", "^", "iz"},    {"", "ie", "", "i"},
    {"", "ign", "^", "In"},      {"", "ind", "^", "Ind"},    {"", "i", "Ce^", "I"},     {"", "i", "Ces^", "I"},
    {"", "i", "Ced^", "I"},      {"", "ine", "^", "in"},     {"", "ir", "C", "3r"},     {"", "ir", "^", "3r"},
    {"", "i", "V", "i"},         {"", "i", "^", "i"},        {"", "ing", "^", "1N"},    {"", "i", "Cing^", "I"},
    {"", "i", "", "1"},          {"", "j", "", "J"},         {"^", "kn", "", "n"},      {"", "kk", "", "k"},
    {"", "kh", "", "k"},         {"", "k", "", "k"},         {"C", "le", "^", "@l"},    {"C", "les", "^", "@lz"},
    {"", "ll", "", "l"},         {"", "l", "", "l"},         {"", "mm", "", "m"},       {"", "m", "", "m"},
    {"", "ng", "^", "N"},        {"", "ngs", "^", "Nz"},     {"", "ng", "E", "nJ"},     {"", "ng", "", "Ng"},
    {"", "nn", "", "n"},         {"", "n", "k", "N"},        {"", "n", "x", "N"},       {"", "n", "q", "N"},
    {"", "n", "", "n"},          {"", "oar", "", "cr"},      {"", "oa", "", "O"},       {"", "oi", "", "Y"},
    {"", "oy", "", "Y"},         {"", "oor", "", "cr"},      {"", "oo", "k", "U"},      {"", "oo", "", "u"},
    {"", "ough", "t", "c"},      {"", "ough", "", "O"},      {"", "our", "", "cr"},     {"", "ous", "^", "@s"},
    {"", "ou", "", "W"},         {"", "ow", "^", "O"},       {"", "ow", "", "W"},       {"VC", "or", "^", "@r"},
    {"w", "or", "", "3r"},       {"", "or", "", "cr"},       {"", "oe", "", "O"},       {"", "oh", "", "O"},
    {"", "old", "", "Old"},      {"", "o", "Ce^", "O"},      {"", "o", "Ces^", "O"},    {"", "o", "Ced^", "O"},
    {"", "o", "Cing^", "O"},     {"VC", "on", "^", "@n"},    {"", "o", "^", "O"},       {"", "o", "CV", "O"},
    {"", "o", "V", "O"},         {"", "o", "", "a"},         {"", "ph", "", "f"},       {"^", "ps", "", "s"},
    {"^", "pn", "", "n"},        {"", "pp", "", "p"},        {"", "p", "", "p"},        {"", "que", "^", "k"},
    {"", "qu", "", "kw"},        {"", "q", "", "k"},         {"", "rr", "", "r"},       {"", "rh", "", "r"},
    {"", "r", "", "r"},          {"^", "sch", "V", "sk"},    {"", "sch", "", "S"},      {"", "sh", "", "S"},
    {"", "ssion", "", "S@n"},    {"V", "sion", "", "Z@n"},   {"", "sion", "", "S@n"},   {"", "sc", "E", "s"},
    {"", "ss", "", "s"},         {"V", "se", "^", "z"},      {"u", "s", "^", "s"},      {"i", "s", "^", "s"},
    {"V", "s", "^", "z"},        {"b", "s", "^", "z"},       {"d", "s", "^", "z"},      {"g", "s", "^", "z"},
    {"l", "s", "^", "z"},        {"m", "s", "^", "z"},       {"n", "s", "^", "z"},      {"r", "s", "^", "z"},
    {"v", "s", "^", "z"},        {"w", "s", "^", "z"},       {"", "s", "m^", "z@"},     {"", "s", "", "s"},
    {"", "tch", "", "C"},        {"", "tion", "", "S@n"},    {"", "tial", "", "S@l"},   {"", "tious", "", "S@s"},
    {"", "ture", "^", "C@r"},    {"", "tures", "^", "C@rz"}, {"", "th", "m", "t"},      {"", "th", "", "H"},
    {"", "tt", "", "t"},         {"", "tz", "", "ts"},       {"", "t", "", "t"},        {"", "ur", "C", "3r"},
    {"", "ur", "^", "3r"},       {"", "ue", "^", "u"},       {"", "ui", "", "u"},       {"", "u", "Ce^", "u"},
    {"", "u", "^", "u"},         {"", "u", "CV", "u"},       {"", "u", "V", "w"},       {"", "u", "", "V"},
    {"", "vv", "", "v"},         {"", "v", "", "v"},         {"", "wh", "", "w"},       {"^", "wr", "", "r"},
    {"", "w", "C", ""},          {"", "w", "^", ""},         {"", "w", "", "w"},        {"^", "x", "", "z"},
    {"", "x", "", "ks"},         {"", "y", "V", "j"},        {"^C", "y", "^", "I"},     {"^CC", "y", "^", "I"},
    {"", "y", "^", "i"},         {"", "y", "Ce^", "I"},      {"", "y", "", "1"},        {"", "zz", "", "z"},
    {"", "z", "", "z"},
};

bool fits(char sign, char32_t letter) {
  static constexpr std::u32string_view kVowels = U"aeiouy", kFront = U"eiy";
  switch (sign) {
    case '^': return letter == 0;
    case 'V': return letter != 0 && kVowels.find(letter) != kVowels.npos;
    case 'C': return letter != 0 && kVowels.find(letter) == kVowels.npos;
    case 'E': return letter != 0 && kFront.find(letter) != kFront.npos;
    default: return letter == static_cast<char32_t>(sign);
  }
}

bool applies(const Rule& rule, std::u32string_view word, size_t at) {
  const auto letter = [&](size_t i) { return i < word.size() ? word[i] : char32_t{0}; };  // below 0 wraps to the end
  for (size_t i = 0; i < rule.letters.size(); ++i)
    if (letter(at + i) != static_cast<char32_t>(rule.letters[i])) return false;
  for (size_t i = 0; i < rule.right.size(); ++i)
    if (!fits(rule.right[i], letter(at + rule.letters.size() + i))) return false;
  for (size_t i = 0; i < rule.left.size(); ++i)
    if (!fits(rule.left[rule.left.size() - 1 - i], letter(at - 1 - i))) return false;
  return true;
}

/// Which of `count` syllables has the stress.
size_t stressed_syllable(std::u32string_view word, size_t count) {
  if (count < 2) return 0;
  const auto ends = [&](std::initializer_list<std::u32string_view> endings) {
    return std::any_of(endings.begin(), endings.end(), [&](std::u32string_view e) { return word.ends_with(e); });
  };
  if (ends({U"ee", U"eer", U"ette", U"esque", U"oon"})) return count - 1;
  if (ends({U"tion", U"sion", U"cian", U"cial", U"tial", U"cious", U"tious", U"ic", U"ics", U"a", U"o", U"i"}))
    return count - 2;
  return count == 2 ? 0 : count - 3;
}

}  // namespace

std::u32string stress_first_vowel(std::u32string_view phonemes, char32_t mark) {
  std::u32string out(phonemes);
  const auto vowel = std::find_if(out.begin(), out.end(), is_vowel_sound);
  if (vowel != out.end()) out.insert(vowel, mark);
  return out;
}

std::u32string sounds_of_letters(std::u32string_view word) {
  std::u32string out;
  const std::string letters = encode_utf8(word);
  const auto* irregular =
      std::find_if(std::begin(kIrregular), std::end(kIrregular), [&](const auto& w) { return w.first == letters; });
  if (irregular != std::end(kIrregular)) out = ipa(irregular->second);
  for (size_t at = out.empty() ? 0 : word.size(); at < word.size();) {
    const auto* rule =
        std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) { return applies(r, word, at); });
    if (rule == std::end(kRules)) {
      ++at;
      continue;
    }
    out += ipa(rule->sounds);
    at += rule->letters.size();
  }
  if (out.find(kPrimary) != out.npos) return out;
  std::vector<size_t> vowels;
  for (size_t i = 0; i < out.size(); ++i)
    if (is_vowel_sound(out[i])) vowels.push_back(i);
  if (vowels.empty()) return out;
  size_t syllable = stressed_syllable(word, vowels.size());
  const char32_t weak = ipa("@")[0];
  while (out[vowels[syllable]] == weak && syllable + 1 < vowels.size()) ++syllable;
  out.insert(vowels[syllable], 1, kPrimary);
  return out;
}

std::u32string spelled(std::u32string_view letters) {
  static constexpr std::array<std::string_view, 26> kNames = {
      "A",  "bi", "si", "di",  "i",  "Ef", "Ji", "AC", "I",  "JA",      "kA",  "El", "Em",
      "En", "O",  "pi", "kju", "ar", "Es", "ti", "ju", "vi", "dVb^lju", "Eks", "wI", "zi"};
  std::u32string out;
  const std::u32string plain = lower(fold(letters));
  const size_t last = plain.find_last_of(U"abcdefghijklmnopqrstuvwxyz");
  for (size_t i = 0; i < plain.size(); ++i)
    if (plain[i] >= U'a' && plain[i] <= U'z')
      out += stress_first_vowel(ipa(kNames[plain[i] - U'a']), i == last ? kPrimary : kSecondary);
  return out;
}

}  // namespace gpukit::text::english
