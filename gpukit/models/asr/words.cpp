#include "gpukit/models/asr/words.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpukit/array/host.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/softmax/softmax.h"

namespace gpukit::asr {
namespace {

constexpr double kPositionSeconds = 0.02;
constexpr int64_t kMedianWidth = 7;

// Punctuation that belongs to the word after it, and to the one before it.
constexpr std::string_view kOpening[] = {"\"", "'", "(", "[", "{", "-", "\u201c", "\u2018", "\u00bf", "\u300c"};
constexpr std::string_view kClosing[] = {"\"",     "'",      ".",      ",",      "!",      "?",      ":",
                                         ")",      "]",      "}",      ";",      "\u201d", "\u2019", "\u3002",
                                         "\uff0c", "\uff01", "\uff1f", "\uff1a", "\u3001", "\u300d", "..."};

bool is_one_of(std::string_view text, std::span<const std::string_view> marks) {
  return std::find(marks.begin(), marks.end(), text) != marks.end();
}

std::string_view without_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

/// Tokens by whole characters.
std::vector<WordTokens> split_characters(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::vector<WordTokens> parts;
  text::TokenStream stream(tokenizer);
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string text = stream.push(tokens[i]);
    if (i + 1 == tokens.size()) text += stream.flush();
    if (text.empty()) continue;
    parts.push_back({std::move(text), begin, i + 1});
    begin = i + 1;
  }
  if (begin < tokens.size() && !parts.empty()) parts.back().end = tokens.size();
  return parts;
}

void join(WordTokens& word, const WordTokens& next) {
  word.text += next.text;
  word.end = next.end;
}

/// The median over kMedianWidth neighbours, mirrored at the ends.
void median_filter(std::span<double> row) {
  const auto n = static_cast<int64_t>(row.size());
  if (n <= kMedianWidth / 2) return;
  const std::vector<double> old(row.begin(), row.end());
  double near[kMedianWidth];
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < kMedianWidth; ++j) {
      const int64_t at = std::abs(i + j - kMedianWidth / 2);
      near[j] = old[static_cast<size_t>(at < n ? at : 2 * (n - 1) - at)];
    }
    std::nth_element(near, near + kMedianWidth / 2, near + kMedianWidth);
    row[static_cast<size_t>(i)] = near[kMedianWidth / 2];
  }
}

/// Every column of [rows, columns] gets mean 0 and deviation 1.
void standardize(std::span<double> values, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) {
    const auto at = [&](int64_t r) -> double& { return values[static_cast<size_t>(r * columns + c)]; };
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < rows; ++r) sum += at(r);
    const double mean = sum / static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) squares += (at(r) - mean) * (at(r) - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(rows));
    for (int64_t r = 0; r < rows; ++r) at(r) = deviation > 0 ? (at(r) - mean) / deviation : 0;
  }
}

std::vector<DecoderToken> read_of(std::span<const int64_t> prompt, std::span<const int32_t> text, int32_t window) {
  std::vector<DecoderToken> tokens;
  const auto add = [&](int64_t id) {
    tokens.push_back({static_cast<int32_t>(id), static_cast<int32_t>(tokens.size()), 0, window});
  };
  for (const int64_t id : prompt) add(id);
  for (const int32_t id : text) add(id);
  return tokens;
}

}  // namespace

bool writes_spaces(std::string_view language) {
  constexpr std::string_view kWithout[] = {"zh", "ja", "th", "lo", "my", "yue"};
  return !is_one_of(language, kWithout);
}

std::vector<WordTokens> split_words(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                    bool has_spaces) {
  std::vector<WordTokens> words;
  for (WordTokens& part : split_characters(tokenizer, tokens)) {
    const bool begins = !has_spaces || words.empty() || part.text.front() == ' ';
    if (begins)
      words.push_back(std::move(part));
    else
      join(words.back(), part);
  }
  std::vector<WordTokens> merged;
  bool open = false;  // the last word is punctuation that waits for its own
  for (WordTokens& word : words) {
    const std::string_view bare = without_space(word.text);
    if (!merged.empty() && (open || is_one_of(bare, kClosing))) {
      join(merged.back(), word);
      open = false;
    } else {
      open = is_one_of(bare, kOpening);
      merged.push_back(std::move(word));
    }
  }
  return merged;
}

std::vector<int64_t> align(std::span<const double> costs, int64_t rows, int64_t columns) {
  enum Step : char { diagonal, down, right };
  const int64_t width = columns + 1;
  std::vector<double> total(static_cast<size_t>((rows + 1) * width), std::numeric_limits<double>::infinity());
  std::vector<Step> steps(total.size(), diagonal);
  total[0] = 0;
  for (int64_t r = 1; r <= rows; ++r)
    for (int64_t c = 1; c <= columns; ++c) {
      const auto at = static_cast<size_t>(r * width + c), above = at - static_cast<size_t>(width);
      const double both = total[above - 1], from_above = total[above], from_left = total[at - 1];
      const Step step = both < from_above && both < from_left         ? diagonal
                        : from_above < both && from_above < from_left ? down
                                                                      : right;
      total[at] = costs[static_cast<size_t>((r - 1) * columns + c - 1)] + (step == diagonal ? both
                                                                           : step == down   ? from_above
                                                                                            : from_left);
      steps[at] = step;
    }
  std::vector<int64_t> first(static_cast<size_t>(rows), 0);
  for (int64_t r = rows, c = columns; r > 0 && c > 0;) {
    first[static_cast<size_t>(r - 1)] = c - 1;
    const Step step = steps[static_cast<size_t>(r * width + c)];
    if (step != right) --r;
    if (step != down) --c;
  }
  return first;
}

std::vector<double> token_times(WhisperDecoder& decoder, const WhisperFiles& files, int32_t window,
                                std::span<const int64_t> prompt, std::span<const int32_t> text, int64_t frames) {
  std::vector<std::pair<int64_t, int64_t>> heads = files.alignment_heads;
  const WhisperConfig& c = files.config;
  for (int64_t layer = c.decoder_layers / 2; files.alignment_heads.empty() && layer < c.decoder_layers; ++layer)
    for (int64_t head = 0; head < c.decoder_attention_heads; ++head) heads.emplace_back(layer, head);

  const std::vector<DecoderToken> tokens = read_of(prompt, text, window);
  const std::vector<float> looks = decoder.cross_attention(tokens, heads);
  // A row looks for the token after it; those of the prompt are of no use.
  const auto rows = static_cast<int64_t>(text.size());
  const size_t per_head = tokens.size() * static_cast<size_t>(c.max_source_positions);
  std::vector<double> costs(static_cast<size_t>(rows * frames), 0), values(costs.size());
  for (size_t h = 0; h < heads.size(); ++h) {
    const float* row = looks.data() + h * per_head + prompt.size() * static_cast<size_t>(c.max_source_positions);
    for (int64_t r = 0; r < rows; ++r, row += c.max_source_positions)
      std::copy(row, row + frames, values.begin() + static_cast<std::ptrdiff_t>(r * frames));
    standardize(values, rows, frames);
    for (int64_t r = 0; r < rows; ++r)
      median_filter(std::span(values).subspan(static_cast<size_t>(r * frames), static_cast<size_t>(frames)));
    for (size_t i = 0; i < costs.size(); ++i) costs[i] -= values[i] / static_cast<double>(heads.size());
  }
  std::vector<double> times = {0};
  for (const int64_t frame : align(costs, rows, frames)) times.push_back(static_cast<double>(frame) * kPositionSeconds);
  return times;
}

std::vector<double> token_probabilities(WhisperDecoder& decoder, const WhisperFiles& files, int32_t window,
                                        std::span<const int64_t> prompt, std::span<const int32_t> text) {
  const std::vector<DecoderToken> tokens = read_of(prompt, text, window);
  std::vector<int32_t> rows;
  for (size_t i = 0; i < text.size(); ++i) rows.push_back(static_cast<int32_t>(prompt.size() + i) - 1);
  if (rows.empty()) return {};
  // Of text tokens only: timestamps and the end do not compete.
  const Array logits = decoder.read(tokens, rows).narrow(1, 0, files.tokens.end_of_text);
  std::vector<int32_t> shown(text.begin(), text.end());
  for (int32_t& id : shown) id = id < files.tokens.end_of_text ? id : 0;
  const Array ids = from_host(shown.data(), {static_cast<int64_t>(text.size()), 1}, DType::int32, logits.device());
  const Array chosen = take_along_axis(softmax(astype(logits, DType::float32)), ids);
  std::vector<float> values(text.size());
  to_host(values.data(), chosen, "transcribe");
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] >= files.tokens.end_of_text) values[i] = 0;
  return {values.begin(), values.end()};
}

}  // namespace gpukit::asr
