// Parts of speech by the words around, for entries of the lexicon that hang on them.
#pragma once

#include <string_view>

#include "gpukit/text/english/lexicon.h"

namespace gpukit::text::english {

/// All in lower case; empty where the sentence begins or ends. An adverb between is looked past by the caller.
Tag guess_tag(std::string_view previous, std::string_view word, std::string_view next);
/// "always", "not", "quickly": stands between a word and what decides about it.
bool is_looked_past(std::string_view word);

}  // namespace gpukit::text::english
