// One alphabet for what follows: blanks, quotes, dashes and signs of Unicode in one form each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpukit::text::english {

/// Text of Latin letters, ASCII signs, the degree, cent, pound, yen and euro signs, curly double quotes, the long dash
/// and the dots. Anything else becomes a blank and is added to `skipped`, once.
std::u32string clean(std::string_view text, std::vector<std::string>& skipped);

}  // namespace gpukit::text::english
