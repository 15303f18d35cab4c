#include "gpukit/text/english/tags.h"

#include <algorithm>
#include <initializer_list>

namespace gpukit::text::english {
namespace {

bool among(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_determiner(std::string_view w) {
  return among(w, {"a",    "an",    "the",   "my",   "your", "his", "her",   "its",  "our",     "their", "this",
                   "that", "these", "those", "some", "any",  "no",  "every", "each", "another", "which", "what"});
}

bool is_before_verb(std::string_view w) {
  return among(w, {"to",    "will",   "would",    "can",      "could",     "should", "may",     "might",
                   "must",  "shall",  "do",       "does",     "did",       "don't",  "doesn't", "didn't",
                   "can't", "won't",  "couldn't", "wouldn't", "shouldn't", "let's",  "please",  "cannot",
                   "i'll",  "you'll", "we'll",    "they'll",  "he'll",     "she'll", "it'll"});
}

bool is_pronoun(std::string_view w) { return among(w, {"i", "you", "we", "they", "who"}); }
bool is_object(std::string_view w) { return among(w, {"me", "him", "us", "them"}); }
bool is_third_person(std::string_view w) { return among(w, {"he", "she", "it"}); }

bool is_have(std::string_view w) {
  return among(w,
               {"have", "has", "had", "having", "i've", "you've", "we've", "they've", "haven't", "hasn't", "hadn't"});
}

bool is_be(std::string_view w) {
  return among(w, {"am",    "is",      "are",  "was",   "were", "be",    "been",   "being",  "i'm",     "you're",
                   "we're", "they're", "he's", "she's", "it's", "isn't", "aren't", "wasn't", "weren't", "that's"});
}

bool is_preposition(std::string_view w) {
  return among(w, {"of", "in", "on", "for", "with", "from", "by", "at", "about", "into", "under", "over", "without",
                   "between", "against", "per"});
}

bool is_function_word(std::string_view w) {
  return is_determiner(w) || is_before_verb(w) || is_pronoun(w) || is_third_person(w) || is_have(w) || is_be(w) ||
         is_preposition(w) || among(w, {"and", "or", "but", "if", "as", "than", "then", "when", "while", "not", "so"});
}

bool is_adjective(std::string_view w) {
  return among(w, {"new",   "old",  "good", "bad",    "great", "first", "second",  "third", "last",
                   "next",  "best", "own",  "big",    "small", "long",  "short",   "high",  "low",
                   "whole", "main", "free", "public", "many",  "few",   "several", "two",   "three",
                   "four",  "five", "six",  "seven",  "eight", "nine",  "ten"}) ||
         (w.size() > 5 && (w.ends_with("ous") || w.ends_with("ful") || w.ends_with("ive") || w.ends_with("ical")));
}

}  // namespace

bool is_looked_past(std::string_view w) {
  return among(w, {"not", "never", "always", "also", "just", "already", "often", "still", "ever", "soon"}) ||
         (w.size() > 4 && w.ends_with("ly"));
}

bool has_past_form_of_same_letters(std::string_view word) { return among(word, {"read", "reread"}); }

bool is_past_time(std::string_view word) { return among(word, {"yesterday", "ago", "last", "earlier", "previously"}); }

Tag guess_tag(std::string_view previous, std::string_view word, std::string_view next, bool past_time) {
  const bool word_follows = !next.empty() && !is_function_word(next);
  if (word == "used" && next == "to") return Tag::past;
  if (word == "that") {
    const bool demonstrative = (previous.empty() || is_preposition(previous)) && word_follows;
    return demonstrative ? Tag::determiner : Tag::other;
  }
  if (previous.empty()) return is_determiner(next) || is_third_person(next) || is_object(next) ? Tag::verb : Tag::other;
  if (is_before_verb(previous)) return Tag::verb;
  if (is_determiner(previous)) return word_follows ? Tag::adjective : Tag::noun;
  if (is_have(previous) || is_be(previous)) return Tag::participle;
  if (is_third_person(previous)) return Tag::past;
  if (is_pronoun(previous) && has_past_form_of_same_letters(word)) return past_time ? Tag::past : Tag::verb;
  if (is_pronoun(previous)) return Tag::present;
  if (is_adjective(previous) || is_preposition(previous)) return Tag::noun;
  if (is_determiner(next) || is_object(next)) return Tag::verb;
  return Tag::other;
}

}  // namespace gpukit::text::english
