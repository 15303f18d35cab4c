#include "gpukit/text/english/phonemizer.h"

#include <algorithm>

#include "gpukit/text/english/letters.h"
#include "gpukit/text/english/normalize.h"
#include "gpukit/text/english/tags.h"
#include "gpukit/text/english/words.h"

namespace gpukit::text::english {
namespace {

struct Token {
  std::u32string text;      // a word, or one mark
  std::u32string phonemes;  // given by the user, or found
  bool word = false, given = false, blank_before = false;
};

bool is_end_of_sentence(char32_t c) { return c == U'.' || c == U'!' || c == U'?'; }

bool is_initials(const std::u32string& text, size_t at) {
  return at + 1 < text.size() && is_upper(text[at]) && text[at + 1] == U'.' &&
         (at + 3 < text.size() ? is_upper(text[at + 2]) && text[at + 3] == U'.' : false);
}

/// The last dot of initials is a full stop too: where the text ends, and after an hour before a capital.
bool initials_end_sentence(const std::u32string& initials, std::u32string_view rest) {
  const size_t next = rest.find_first_not_of(U' ');
  if (next == rest.npos) return true;
  return (initials == U"A.M." || initials == U"P.M.") && is_upper(rest[next]);
}

constexpr size_t kLongestWord = 100;  // longer ones are said in pieces

void add_tokens(std::vector<Token>& tokens, std::u32string_view given_text, bool blank_before) {
  const std::u32string text(given_text);
  bool blank = blank_before;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = text[i];
    Token token;
    token.blank_before = blank;
    if (is_initials(text, i)) {
      size_t end = i;
      while (end + 1 < text.size() && end - i < kLongestWord && is_upper(text[end]) && text[end + 1] == U'.') end += 2;
      token.text = text.substr(i, end - i);
      token.word = true;
      i = end;
      if (initials_end_sentence(token.text, std::u32string_view(text).substr(end))) {
        tokens.push_back(std::move(token));
        token = {};
        token.text = U".";
      }
    } else if (is_letter(c) || c == U'\'') {
      size_t end = i + 1;
      const auto inside = [&](size_t k) {
        return is_letter(text[k]) || text[k] == U'\'' ||
               (text[k] == U'-' && k + 1 < text.size() && is_letter(text[k + 1]));
      };
      while (end < text.size() && end - i < kLongestWord && inside(end)) ++end;
      token.text = text.substr(i, end - i);
      token.word = std::any_of(token.text.begin(), token.text.end(), is_letter);
      i = end;
      if (!token.word) continue;
    } else {
      ++i;
      if (c == U' ') blank = true;
      if (!is_spoken_mark(c)) continue;
      token.text = c;
    }
    blank = false;
    tokens.push_back(std::move(token));
  }
}

/// What the sound of `phonemes` means for the word before; as it was for sounds that are neither.
Context::Next sound_after(const std::u32string& phonemes, Context::Next now) {
  for (const char32_t c : phonemes) {
    if (is_vowel_sound(c)) return Context::Next::vowel;
    if (is_consonant_sound(c)) return Context::Next::consonant;
    if (is_pause(c)) return Context::Next::pause;
  }
  return now;
}

class Speaker {
 public:
  Speaker(const Lexicon& lexicon, std::vector<Token>& tokens, std::vector<std::string>& guessed)
      : lexicon_(lexicon), tokens_(tokens), guessed_(guessed) {}

  void run() {
    Context::Next next = Context::Next::pause;
    for (size_t i = tokens_.size(); i-- > 0;) {
      Token& token = tokens_[i];
      if (!token.word) {
        token.phonemes = token.text;
      } else if (!token.given) {
        Context context;
        context.next = next;
        const std::string word = encode_utf8(lower(token.text));
        const bool past = has_past_form_of_same_letters(word) && speaks_of_past(i);
        context.tag = guess_tag(word_before(i), word, word_after(i), past);
        context.first = i == 0 || !tokens_[i - 1].word;
        context.before_word = i + 1 < tokens_.size() && tokens_[i + 1].word;
        WordSound sound = resolve_word(lexicon_, token.text, context);
        if (sound.guessed) note_guessed(token.text);
        token.phonemes = std::move(sound.phonemes);
      }
      next = sound_after(token.phonemes, next);
    }
  }

 private:
  std::string word_before(size_t i) const {
    while (i-- > 0 && tokens_[i].word) {
      std::string word = encode_utf8(lower(tokens_[i].text));
      if (!is_looked_past(word)) return word;
    }
    return {};
  }
  std::string word_after(size_t i) const {
    return i + 1 < tokens_.size() && tokens_[i + 1].word ? encode_utf8(lower(tokens_[i + 1].text)) : std::string();
  }
  /// A word near this one, in its sentence, says that it was.
  bool speaks_of_past(size_t i) const {
    constexpr size_t kNear = 24;
    const auto ends = [&](size_t k) { return !tokens_[k].word && is_end_of_sentence(tokens_[k].text[0]); };
    const auto past = [&](size_t k) { return is_past_time(encode_utf8(lower(tokens_[k].text))); };
    for (size_t k = i; k < tokens_.size() && k < i + kNear && !ends(k); ++k)
      if (past(k)) return true;
    for (size_t k = i; k-- > 0 && k + kNear > i && !ends(k);)
      if (past(k)) return true;
    return false;
  }
  void note_guessed(const std::u32string& word) {
    constexpr size_t kMost = 1000;
    std::string text = encode_utf8(word);
    if (guessed_.size() < kMost && std::find(guessed_.begin(), guessed_.end(), text) == guessed_.end())
      guessed_.push_back(std::move(text));
  }

  const Lexicon& lexicon_;
  std::vector<Token>& tokens_;
  std::vector<std::string>& guessed_;
};

std::u32string american(std::u32string phonemes) {
  for (char32_t& c : phonemes) c = c == U'\u027e' ? U'T' : c == U'\u0294' ? U't' : c;
  return phonemes;
}

/// American phonemes as British English has them: no r before a consonant or a pause, long vowels marked.
std::u32string british(std::u32string_view phonemes) {
  std::u32string out;
  const auto sound = [&](size_t i) {  // the next one, over stress and blanks
    while (i < phonemes.size() && (phonemes[i] == kPrimary || phonemes[i] == kSecondary || phonemes[i] == U' ')) ++i;
    return i < phonemes.size() ? phonemes[i] : char32_t{0};
  };
  constexpr char32_t kR = U'\u0279', kLong = U'\u02d0', kSchwa = U'\u0259';
  for (size_t i = 0; i < phonemes.size(); ++i) {
    const char32_t c = phonemes[i];
    const bool before_r = i + 1 < phonemes.size() && phonemes[i + 1] == kR;
    switch (c) {
      case U'O': out += U'Q'; break;
      case U'\u027e':
      case U'\u0294': out += U't'; break;
      case U'\u1d7b': out += U'\u026a'; break;
      case U'\u00e6': out += U'a'; break;
      case U'\u0251': out += before_r ? U"\u0251\u02d0" : U"\u0252"; break;
      case U'\u0254': out += c, out += kLong; break;
      case U'\u025c': out += c, out += kLong; break;
      case U'\u025b':
        out += c;
        if (before_r) out += kLong;
        break;
      case U'\u026a':
      case U'\u028a':
        out += c;
        if (before_r) out += kSchwa;
        break;
      case U'i':
      case U'u': {
        const bool stressed = !out.empty() && (out.back() == kPrimary || out.back() == kSecondary);
        out += c;
        if (stressed) out += kLong;
        break;
      }
      case kR:
        if (is_vowel_sound(sound(i + 1)) || sound(i + 1) == U'\u1d4a' || i == 0 || !is_vowel_sound(phonemes[i - 1]))
          out += c;
        break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

std::vector<Span> split_overrides(std::string_view text) {
  std::vector<Span> spans;
  size_t plain = 0;
  for (size_t open = text.find('['); open != text.npos; open = text.find('[', open + 1)) {
    const size_t close = text.find_first_of("[]\n", open + 1);
    if (close == text.npos || close == open + 1 || text.substr(close, 3) != "](/") continue;
    const size_t end = text.find_first_of("/\n", close + 3);
    if (end == text.npos || end == close + 3 || text.substr(end, 2) != "/)") continue;
    if (open > plain) spans.push_back({text.substr(plain, open - plain), {}});
    spans.push_back({text.substr(open + 1, close - open - 1), text.substr(close + 3, end - close - 3)});
    plain = end + 2;
    open = plain - 1;
  }
  if (plain < text.size()) spans.push_back({text.substr(plain), {}});
  return spans;
}

namespace {

bool blank_at_end(std::string_view text) { return !text.empty() && (text.back() == ' ' || text.back() == '\n'); }

bool blank_at_start(std::string_view text) { return !text.empty() && (text[0] == ' ' || text[0] == '\n'); }

}  // namespace

std::string normalize_around_overrides(std::string_view text) {
  std::string out;
  bool blank = false;
  for (const Span& span : split_overrides(text)) {
    const bool plain = span.phonemes.empty();
    const std::string part =
        plain ? normalize(span.text).text : "[" + std::string(span.text) + "](/" + std::string(span.phonemes) + "/)";
    if (!part.empty() && !out.empty() && (blank || (plain && blank_at_start(span.text)))) out += ' ';
    out += part;
    blank = plain && blank_at_end(span.text);
  }
  return out;
}

Pronunciation Phonemizer::operator()(std::string_view text, bool normalise) const {
  Pronunciation result;
  std::vector<Token> tokens;
  bool blank = false;
  for (const Span& span : split_overrides(text)) {
    if (!span.phonemes.empty()) {
      Token token;
      token.text = decode_utf8(span.text);
      token.phonemes = decode_utf8(span.phonemes);
      token.word = token.given = true;
      token.blank_before = blank;
      tokens.push_back(std::move(token));
      blank = false;
      continue;
    }
    Normalized part = normalise ? normalize(span.text) : as_words(span.text);
    add_tokens(tokens, decode_utf8(part.text), blank || blank_at_start(span.text));
    for (std::string& mark : part.skipped)
      if (std::find(result.skipped.begin(), result.skipped.end(), mark) == result.skipped.end())
        result.skipped.push_back(std::move(mark));
    blank = blank_at_end(span.text);
  }
  result.text = normalise ? normalize_around_overrides(text) : encode_utf8(decode_utf8(text));
  Speaker(*lexicon_, tokens, result.guessed).run();

  std::u32string found, all;
  // Given phonemes are not translated.
  const auto flush = [&] {
    all += dialect_ == Dialect::british ? british(found) : american(std::move(found));
    found.clear();
  };
  for (const Token& token : tokens) {
    if (token.phonemes.empty()) continue;
    if (token.blank_before && !(found.empty() && all.empty())) found += U' ';
    if (token.given) {
      flush();
      all += token.phonemes;
    } else {
      found += token.phonemes;
    }
  }
  flush();
  result.phonemes = encode_utf8(all);
  return result;
}

}  // namespace gpukit::text::english
