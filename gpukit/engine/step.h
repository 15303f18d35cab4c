// One step of a batch: a forward over some tokens and one draw for each sequence that wants one, in fixed buffers, so
// that a step of single tokens is one graph launch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpukit/engine/paged_cache.h"
#include "gpukit/models/llm/causal_transformer.h"
#include "gpukit/ops/sampling/sampling.h"
#include "gpukit/runtime/graph.h"

namespace gpukit::engine {

/// How the tokens of one sequence are drawn.
struct Draw {
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f, min_p = 0.0f;
  float repetition = 1.0f, frequency = 0.0f, presence = 0.0f;
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> bias;  // at most kMaxBias
  static constexpr int64_t kMaxBias = 256;

  bool is_greedy() const { return !(temperature >= 1e-6f); }
  bool has_penalties() const { return repetition != 1.0f || frequency != 0.0f || presence != 0.0f; }
};

/// A sequence in a step: row i of the step is sequence i of the cache.
struct StepRow {
  int64_t token = -1;  // of the step whose logits are drawn from; -1: none
  const Draw* draw = nullptr;
  std::span<const int32_t> history;  // all tokens of the sequence so far, for penalties
  int64_t prompt_length = 0;
  const std::vector<int32_t>* allowed = nullptr;  // token ids, or null: all
};

/// What a row drew.
struct Drawn {
  int32_t token = -1;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;
};

class Step {
 public:
  struct Options {
    int64_t max_tokens = 512;  // of one step
    bool graphs = true;        // steps of one token a row are captured and replayed
    bool verify = false;       // Graph::verify of each graph on what it is first used for
    int64_t top_logprobs = 0;  // likeliest tokens reported for each row
    bool logprobs = false;
  };
  Step(std::shared_ptr<const llm::CausalTransformer> model, PagedCache& cache, const Options& options);

  /// Makes what steps with such draws write to beside the buffers of all. Before the first of them; throws
  /// OutOfMemoryError.
  void prepare(const Draw& draw, bool allowed);
  /// Tokens in the order they are computed; sequence ids are rows. Waits for the result: one for each row.
  std::vector<Drawn> run(std::span<const int32_t> ids, std::span<const int32_t> positions,
                         std::span<const int32_t> sequences, std::span<const StepRow> rows);
  /// The same with one token a row: ids[i], positions[i] belong to row i, whose `token` is i, or -1 for no sequence.
  std::vector<Drawn> run_single(std::span<const int32_t> ids, std::span<const int32_t> positions,
                                std::span<const StepRow> rows);
  int64_t num_graphs() const { return static_cast<int64_t>(graphs_.size()); }

 private:
  /// What a captured step depends on beside device memory and the session.
  struct Shape {
    int64_t tokens = 0, rows = 0;
    bool single = false;  // token i is that of row i
    bool greedy = false, penalties = false, bias = false, allowed = false;
    env::Determinism level = env::Determinism::run_to_run;
    bool operator==(const Shape&) const = default;
  };
  struct Captured {
    Shape shape;
    std::unique_ptr<runtime::Graph> graph;
  };

  static Shape shape_of(int64_t tokens, int64_t num_rows, bool single, std::span<const StepRow> rows);
  void upload(const Shape& shape, std::span<const int32_t> ids, std::span<const int32_t> positions,
              std::span<const int32_t> sequences, std::span<const StepRow> rows);
  void upload_history(std::span<const StepRow> rows);
  void upload_bias(std::span<const StepRow> rows);
  void upload_allowed(const Shape& shape, std::span<const StepRow> rows);
  void issue(const Shape& shape);
  runtime::Graph& captured(const Shape& shape);
  std::vector<Drawn> results(const Shape& shape, size_t rows);

  std::shared_ptr<const llm::CausalTransformer> model_;
  PagedCache& cache_;
  Options options_;
  llm::ForwardBuffers buffers_;
  Array control_;  // int32: seeds, tokens and rows of a step, one upload
  std::vector<int32_t> staged_;
  Array chosen_, logits_;  // of the rows
  Array drawn_;            // int32: tokens, log-probabilities, the likeliest and theirs; one download
  Array history_, bias_ids_, bias_values_, allowed_;  // by prepare()
  std::vector<std::vector<int32_t>> known_history_;   // what history_ holds
  std::vector<Captured> graphs_;
};

}  // namespace gpukit::engine
