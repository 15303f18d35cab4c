// From logits to text tokens: Whisper's rules, greedy, random and beam search over several windows at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpukit/models/asr/whisper_step.h"

namespace gpukit::asr {

struct SearchOptions {
  double temperature = 0;      // 0: the likeliest token
  int64_t beam_size = 1;       // above 1: beam search, with temperature 0
  int64_t best_of = 1;         // with a temperature: the best of so many draws
  int64_t top_k = 0;           // with a temperature: draws among the likeliest; 0: among all
  double patience = 1;         // beam search ends after beam_size * patience finished texts
  double length_penalty = -1;  // texts compete by log-probability / ((5 + length) / 6)^this; below 0: / length
  bool timestamps = true;
  bool suppress = true;      // the tokens that the model's files name
  int64_t max_length = 448;  // of prompt and text
  uint64_t seed = 0;
  std::optional<bool> graphs;  // a step is one graph; empty: on a GPU

  /// Texts that are kept at once for each window.
  int64_t group() const { return temperature > 0 ? best_of : beam_size; }
  /// Throws ArgumentError.
  void check() const;
};

struct SearchResult {
  std::vector<int32_t> tokens;  // without the prompt and the end
  double average_logprob = 0;   // of the tokens and the end
  double no_speech = 0;         // probability
  bool ended = false;           // by the end token, not by max_length
};

/// One window to be written down: its number in the decoder and what stands before the text.
struct SearchJob {
  int64_t window = 0;
  std::vector<int32_t> prompt;
  uint64_t stream = 0;  // with the seed, what is drawn
};

/// A decoder with options.group() sequences for each window, and the steps over it.
class WhisperSearch {
 public:
  WhisperSearch(const WhisperWeights& weights, const WhisperFiles& files, int64_t windows, int64_t group)
      : files_(files), decoder_(weights, windows, windows * group) {}

  WhisperDecoder& decoder() { return decoder_; }
  /// Writes down windows that the decoder has heard. A job's result does not depend on the others. Throws ArgumentError
  /// for a prompt that leaves no room, Error where the logits are NaN.
  std::vector<SearchResult> run(std::span<const SearchJob> jobs, const SearchOptions& options);

 private:
  WhisperStep& step_for(const SearchOptions& options);

  const WhisperFiles& files_;
  WhisperDecoder decoder_;
  std::vector<std::unique_ptr<WhisperStep>> steps_;
};

/// Probabilities of the languages, in the order of files.tokens.languages, for each of the first `windows` windows.
std::vector<std::vector<float>> detect_languages(WhisperDecoder& decoder, const WhisperFiles& files, int64_t windows);

}  // namespace gpukit::asr
