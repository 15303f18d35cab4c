// When each word of a text was said, from where the decoder looked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpukit/models/asr/whisper_decoder.h"
#include "gpukit/text/tokenizer.h"

namespace gpukit::asr {

struct Word {
  std::string text;
  double start = 0, end = 0;  // seconds
  double probability = 0;
};

/// Tokens [begin, end) that make a word. Words begin with a space, but for languages that write none, where each whole
/// character is one; punctuation belongs to its word.
struct WordTokens {
  std::string text;
  size_t begin = 0, end = 0;
};
std::vector<WordTokens> split_words(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens, bool has_spaces);
/// Of a language code: false for zh, ja, th, lo, my and yue.
bool writes_spaces(std::string_view language);

/// The cheapest way through costs [rows, columns] from the first corner to the last, by steps right, down or both: for
/// each row the first column that it passes.
std::vector<int64_t> align(std::span<const double> costs, int64_t rows, int64_t columns);

/// Seconds, within the window, at which each of `text` begins, and at which the last ends: text.size() + 1 numbers that
/// do not descend, the first of them 0. `text`: what was said after `prompt`, with its timestamps. `frames`: positions
/// of the sound that count.
std::vector<double> token_times(WhisperDecoder& decoder, const WhisperFiles& files, int32_t window,
                                std::span<const int64_t> prompt, std::span<const int32_t> text, int64_t frames);
/// Probability of each of `text` after `prompt`, among tokens that are no timestamps; 0 for one that is.
std::vector<double> token_probabilities(WhisperDecoder& decoder, const WhisperFiles& files, int32_t window,
                                        std::span<const int64_t> prompt, std::span<const int32_t> text);

}  // namespace gpukit::asr
