#include "gpukit/text/english/words.h"

#include <algorithm>
#include <vector>

#include "gpukit/text/english/letter_sounds.h"
#include "gpukit/text/english/letters.h"

namespace gpukit::text::english {
namespace {

/// The vowel of "a"; neither a vowel nor a consonant to the word before it.
const std::u32string kSchwaLike = U"\u0250";

bool has(std::u32string_view text, char32_t c) { return text.find(c) != text.npos; }

bool all_upper(std::u32string_view word) {
  return std::none_of(word.begin(), word.end(), [](char32_t c) { return is_letter(c) && !is_upper(c); });
}

/// Capitalised: an unmarked word gets a secondary stress. All capitals: secondary becomes primary, unmarked gets it.
std::u32string with_stress_of_case(std::u32string_view word, std::u32string phonemes) {
  if (word.empty() || !is_upper(word[0])) return phonemes;
  const bool primary = has(phonemes, kPrimary), secondary = has(phonemes, kSecondary);
  if (word.size() > 1 && all_upper(word)) {
    if (!primary && secondary) std::replace(phonemes.begin(), phonemes.end(), kSecondary, kPrimary);
    return primary || secondary ? phonemes : stress_first_vowel(phonemes, kPrimary);
  }
  return primary || secondary ? phonemes : stress_first_vowel(phonemes, kSecondary);
}

std::u32string with_s(std::u32string stem) {
  static const std::u32string voiceless = ipa("ptkfH"), hissing = ipa("szSZCJ");
  if (stem.empty()) return stem;
  const char32_t last = stem.back();
  return stem + ipa(has(voiceless, last) ? "s" : has(hissing, last) ? "%z" : "z");
}

/// An American t between a vowel sound or r and an ending that begins with a vowel.
std::u32string tapped(std::u32string stem) {
  static const std::u32string before = ipa("AIOWYiu&a@E1rUV");
  if (stem.size() > 1 && stem.back() == U't' && has(before, stem[stem.size() - 2])) stem.back() = ipa("R")[0];
  return stem;
}

std::u32string with_ed(std::u32string stem) {
  static const std::u32string voiceless = ipa("pkfHSsC");
  if (stem.empty()) return stem;
  const char32_t last = stem.back();
  if (last == U't' || last == U'd') return tapped(std::move(stem)) + ipa("%d");
  return stem + ipa(has(voiceless, last) ? "t" : "d");
}

class Resolver {
 public:
  Resolver(const Lexicon& lexicon, const Context& context) : lexicon_(lexicon), context_(context) {}

  WordSound run(std::u32string_view word) const {
    if (auto sound = special(word)) return {*sound};
    if (has(word, U'.')) return {spelled(word)};
    if (auto sound = known(word)) return {*sound};
    if (const std::u32string plain = fold(word); plain != word) return run(plain);
    if (has(word, U'-')) return joined(split_at_hyphens(word));
    if (const auto parts = split_at_case(word); parts.size() > 1) return joined(parts);
    return unknown(word);
  }

 private:
  std::optional<std::u32string> special(std::u32string_view word) const {
    using Next = Context::Next;
    const std::u32string small = lower(word);
    if (small == U"the") return ipa(context_.next == Next::vowel ? "Di" : "D@");
    if (small == U"to" && !context_.at_pause()) return ipa(context_.next == Next::vowel ? "tU" : "t@");
    if (small == U"to") return ipa("tu");
    if (word == U"a") return kSchwaLike;
    if (word == U"A") return context_.first && context_.before_word ? kSchwaLike : ipa("'A");
    if (small == U"an") return kSchwaLike + U"n";
    if (small == U"am" && word != U"AM" && !context_.at_pause()) return kSchwaLike + U"m";
    if (word == U"I") return ipa(",I");
    if (small == U"in" && word != U"IN") return ipa(context_.at_pause() ? "'1n" : "1n");
    return std::nullopt;
  }

  /// Of the lexicons, whole or by its ending.
  std::optional<std::u32string> known(std::u32string_view word) const {
    if (auto sound = looked_up(word)) return sound;
    std::u32string base(word);
    if (base.ends_with(U"s'")) base.replace(base.size() - 2, 2, U"'s");
    if (base.size() > 1 && base.ends_with(U"'")) base.pop_back();
    if (base != word)
      if (auto sound = looked_up(base)) return sound;
    if (auto sound = contraction(base)) return sound;
    if (auto sound = ending_s(base)) return sound;
    if (auto sound = ending_ed(base)) return sound;
    return ending_ing(base);
  }

  std::optional<std::u32string> looked_up(std::u32string_view word) const {
    std::optional<Entry> entry = lexicon_.find(word, context_.tag, context_.at_pause());
    const std::u32string small = lower(word);
    if (!entry && small != word) {
      entry = lexicon_.find(small, context_.tag, context_.at_pause());
      const std::u32string capitalised = word.empty() ? U"" : word[0] + small.substr(1);
      if (!entry) entry = lexicon_.find(capitalised, context_.tag, context_.at_pause());
    }
    if (!entry) return std::nullopt;
    if (entry->spell) return spelled(word);
    return with_stress_of_case(word, std::move(entry->phonemes));
  }

  std::optional<std::u32string> contraction(std::u32string_view word) const {
    const size_t mark = word.rfind(U'\'');
    if (mark == word.npos || mark == 0) return std::nullopt;
    const std::u32string_view tail = word.substr(mark + 1);
    const bool small_tail = tail == U"ll" || tail == U"ve" || tail == U"re" || tail == U"d" || tail == U"m";
    if (!small_tail) return std::nullopt;
    const auto stem = looked_up(word.substr(0, mark));
    if (!stem) return std::nullopt;
    const bool after_stop = !stem->empty() && (stem->back() == U't' || stem->back() == U'd');
    if (tail == U"ll") return *stem + ipa("@l");
    if (tail == U"ve") return *stem + ipa("@v");
    if (tail == U"re") return *stem + ipa("@r");
    if (tail == U"m") return *stem + ipa("m");
    return *stem + ipa(after_stop ? "@d" : "d");
  }

  std::optional<std::u32string> ending_s(std::u32string_view word) const {
    const size_t n = word.size();
    if (n < 3 || !(word.ends_with(U"s") || (word.ends_with(U"S") && all_upper(word)))) return std::nullopt;
    const auto stem = [&](size_t drop, std::u32string_view add = U"") {
      return looked_up(std::u32string(word.substr(0, n - drop)) + std::u32string(add));
    };
    if (!word.ends_with(U"ss") && word[n - 2] != U'\'')
      if (auto sound = stem(1)) return with_s(*sound);
    if (word.ends_with(U"'s") || (n > 4 && word.ends_with(U"es") && !word.ends_with(U"ies"))) {
      auto sound = stem(2);
      if (!sound && word.ends_with(U"'s")) sound = run(word.substr(0, n - 2)).phonemes;
      if (sound) return with_s(*sound);
    }
    if (n > 4 && word.ends_with(U"ies"))
      if (auto sound = stem(3, U"y")) return with_s(*sound);
    return std::nullopt;
  }

  std::optional<std::u32string> ending_ed(std::u32string_view word) const {
    const size_t n = word.size();
    if (n < 4 || !word.ends_with(U"d")) return std::nullopt;
    const auto stem = [&](size_t drop, std::u32string_view add = U"") {
      return looked_up(std::u32string(word.substr(0, n - drop)) + std::u32string(add));
    };
    const bool ed = n > 4 && word.ends_with(U"ed") && !word.ends_with(U"eed");
    if (word.ends_with(U"ed"))
      if (auto sound = stem(1)) return with_ed(*sound);
    if (ed)
      if (auto sound = stem(2)) return with_ed(*sound);
    if (ed && word.ends_with(U"ied"))
      if (auto sound = stem(3, U"y")) return with_ed(*sound);
    if (ed && n > 5 && word[n - 3] == word[n - 4])
      if (auto sound = stem(3)) return with_ed(*sound);
    return std::nullopt;
  }

  std::optional<std::u32string> ending_ing(std::u32string_view word) const {
    const size_t n = word.size();
    if (n < 5 || !word.ends_with(U"ing")) return std::nullopt;
    const std::u32string stem(word.substr(0, n - 3));
    std::optional<std::u32string> sound;
    if (n > 5) sound = looked_up(stem);
    if (!sound) sound = looked_up(stem + U"e");
    const bool doubled = n > 6 && (stem[n - 4] == stem[n - 5] || stem.ends_with(U"ck"));
    if (!sound && doubled) sound = looked_up(stem.substr(0, n - 4));
    if (!sound) return std::nullopt;
    return tapped(std::move(*sound)) + ipa("1N");
  }

  static std::vector<std::u32string> split_at_hyphens(std::u32string_view word) {
    std::vector<std::u32string> parts(1);
    for (const char32_t c : word) {
      if (c != U'-')
        parts.back() += c;
      else if (!parts.back().empty())
        parts.emplace_back();
    }
    if (parts.back().empty() && parts.size() > 1) parts.pop_back();
    return parts;
  }

  /// camelCase, HTMLParser, GPUs. A name in one case gives one part.
  std::vector<std::u32string> split_at_case(std::u32string_view word) const {
    std::vector<std::u32string> parts;
    for (size_t i = 0; i < word.size();) {
      size_t upper = i;
      while (upper < word.size() && is_upper(word[upper])) ++upper;
      size_t end = upper;
      while (end < word.size() && !is_upper(word[end])) ++end;
      const std::u32string_view small = word.substr(upper, end - upper);
      if (upper - i < 2 || small.empty() || small[0] == U'\'') {
        parts.emplace_back(word.substr(i, end - i));
      } else if (small == U"s" ||
                 (lexicon_.contains(small) && !lexicon_.contains(lower(word.substr(upper - 1, end - upper + 1))))) {
        parts.emplace_back(word.substr(i, upper - i));
        parts.emplace_back(small);
      } else {
        parts.emplace_back(word.substr(i, upper - 1 - i));
        parts.emplace_back(word.substr(upper - 1, end - upper + 1));
      }
      i = end;
    }
    return parts;
  }

  /// The parts as one word: primary stress on the last one that has it.
  WordSound joined(const std::vector<std::u32string>& parts) const {
    WordSound whole;
    Context context = context_;
    for (size_t i = parts.size(); i-- > 0;) {
      if (parts[i] == U"s" && i + 1 == parts.size() && i > 0) {
        const WordSound stem = resolve_word(lexicon_, parts[--i], context);
        whole = {with_s(stem.phonemes), stem.guessed};
      } else {
        WordSound part = resolve_word(lexicon_, parts[i], context);
        if (has(whole.phonemes, kPrimary))
          std::replace(part.phonemes.begin(), part.phonemes.end(), kPrimary, kSecondary);
        whole.phonemes.insert(0, part.phonemes);
        whole.guessed = whole.guessed || part.guessed;
      }
      if (!whole.phonemes.empty()) {
        const auto sound = std::find_if(whole.phonemes.begin(), whole.phonemes.end(),
                                        [](char32_t c) { return is_vowel_sound(c) || is_consonant_sound(c); });
        if (sound != whole.phonemes.end())
          context.next = is_vowel_sound(*sound) ? Context::Next::vowel : Context::Next::consonant;
      }
      context.tag = Tag::other;
      context.first = false;
    }
    return whole;
  }

  WordSound unknown(std::u32string_view word) const {
    const std::u32string small = lower(word);
    std::u32string letters;
    for (const char32_t c : small)
      if (c != U'\'') letters += c;
    if (letters.empty()) return {};
    const bool no_vowel = letters.find_first_of(U"aeiouy") == letters.npos;
    const bool acronym = word.size() > 1 && all_upper(word) && letters.size() <= 6;
    if (no_vowel || acronym || letters.size() == 1) return {spelled(letters)};
    if (auto sound = compound(letters)) return {with_stress_of_case(word, *sound)};
    return {sounds_of_letters(letters), true};
  }

  /// Two known words of three letters or more; the cut nearest to the middle.
  std::optional<std::u32string> compound(const std::u32string& letters) const {
    constexpr size_t kShortest = 3;
    const size_t n = letters.size();
    if (n < 2 * kShortest + 1) return std::nullopt;
    for (size_t step = 0; step < n; ++step) {
      const size_t cut = step % 2 == 0 ? n / 2 + step / 2 : n / 2 - (step + 1) / 2;
      if (cut < kShortest || cut + kShortest > n) continue;
      const std::u32string left = letters.substr(0, cut), right = letters.substr(cut);
      if (!lexicon_.contains(left) || !lexicon_.contains(right)) continue;
      const auto first = lexicon_.find(left, Tag::noun, false), second = lexicon_.find(right, Tag::noun, false);
      if (first->spell || second->spell) continue;
      std::u32string tail = second->phonemes;
      if (has(first->phonemes, kPrimary)) std::replace(tail.begin(), tail.end(), kPrimary, kSecondary);
      return first->phonemes + tail;
    }
    return std::nullopt;
  }

  const Lexicon& lexicon_;
  const Context& context_;
};

}  // namespace

WordSound resolve_word(const Lexicon& lexicon, std::u32string_view word, const Context& context) {
  return Resolver(lexicon, context).run(word);
}

}  // namespace gpukit::text::english
