// One token of several texts: read, masked by Whisper's rules and chosen on the device. With a graph a step is one
// launch that reads what the step before it chose, and the host waits for the chosen tokens alone.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "gpukit/models/asr/whisper_decoder.h"
#include "gpukit/ops/sampling/whisper_rules.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/pinned_ring.h"

namespace gpukit::asr {

/// A text that wants its next token.
struct TextRow {
  DecoderToken token;  // to be read
  int32_t length = 0;  // tokens since the prompt
  int32_t kinds = 1, latest = -1, limit = 0;
  uint64_t seed = 0;
};

/// For each row; token -1 where nothing could be chosen.
struct Choice {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<int32_t> top_ids;  // [rows, top]
  std::vector<float> top_logprobs;
};

struct StepOptions {
  WhisperRules rules;
  std::vector<int64_t> never, never_first;  // suppressed tokens
  bool draws = false;                       // at a temperature; false: the likeliest token
  int64_t top = 0;                          // the likeliest tokens that are reported
  bool graph = false;                       // rows are sequences, all of them
  bool operator==(const StepOptions&) const = default;
};

/// For one thread at a time. The decoder must outlive it.
class WhisperStep {
 public:
  WhisperStep(const WhisperDecoder& decoder, StepOptions options);
  ~WhisperStep();
  WhisperStep(const WhisperStep&) = delete;
  WhisperStep& operator=(const WhisperStep&) = delete;

  const StepOptions& options() const { return options_; }
  /// For draws: of what comes next. top_k 0: among all.
  void set_draws(double temperature, int64_t top_k) {
    temperature_ = static_cast<float>(temperature);
    top_k_ = static_cast<int32_t>(top_k);
  }
  /// Chooses by logits that are there already, [rows, vocab], which are overwritten. Waits.
  Choice choose(const Array& logits, std::span<const TextRow> rows);
  /// Reads the token of each row and chooses the next one. Waits.
  Choice run(std::span<const TextRow> rows);

  /// A row for every sequence, with which the first issue() begins. Each later one reads what the one before it chose.
  void start(std::span<const TextRow> rows);
  void issue();
  /// The choices of the oldest issue that was not taken; waits for that one alone.
  Choice take();

 private:
  void upload(std::span<const TextRow> rows);
  void choose_next(const Array& logits, int64_t rows);
  void read_and_choose(int64_t rows);
  void replay();
  Choice unpack(const int32_t* words, int64_t rows) const;
  Choice results(int64_t rows);
  int64_t result_words(int64_t rows) const { return (2 + 2 * options_.top) * rows; }

  const WhisperDecoder& decoder_;
  const StepOptions options_;
  const int64_t capacity_;
  float temperature_ = 1;
  int32_t top_k_ = 0;
  DecoderPass pass_;
  Array control_, suppressed_, drawn_;
  std::unique_ptr<runtime::Graph> graph_;
  std::unique_ptr<runtime::PinnedRing> ring_;
  std::vector<runtime::PinnedRing::Slot> slots_;
  std::deque<size_t> issued_;  // slots, oldest first
  size_t next_slot_ = 0;
};

}  // namespace gpukit::asr
