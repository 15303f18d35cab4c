// Parts of speech by the words around, for entries of the lexicon that hang on them.
#pragma once

#include <string_view>

#include "gpukit/text/english/lexicon.h"

namespace gpukit::text::english {

/// All in lower case; empty where the sentence begins or ends. An adverb between is looked past by the caller.
/// `past_time`: the sentence speaks of the past; asked of words with a past form of the same letters only.
Tag guess_tag(std::string_view previous, std::string_view word, std::string_view next, bool past_time = false);
bool has_past_form_of_same_letters(std::string_view word);
/// "yesterday", "ago".
bool is_past_time(std::string_view word);
/// "always", "not", "quickly": stands between a word and what decides about it.
bool is_looked_past(std::string_view word);

}  // namespace gpukit::text::english
