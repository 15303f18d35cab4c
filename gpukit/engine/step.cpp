#include "gpukit/engine/step.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::engine {

namespace {

constexpr const char* kOp = "Step";

// int32 words of a row in the control block, after its seed.
enum Field {
  kToken,
  kTemperature,
  kTopK,
  kTopP,
  kMinP,
  kRepetition,
  kFrequency,
  kPresence,
  kPosition,
  kLength,
  kPrompt,
  kFields
};

int64_t control_words(int64_t tokens, int64_t rows) { return 2 * rows + 3 * tokens + kFields * rows; }
int64_t words_of(int64_t vocab) { return (vocab + 31) / 32; }

/// The parts of a control block for so many tokens and rows.
struct Control {
  Array block;
  int64_t tokens, rows;
  Array seeds() const { return block.narrow(0, 0, 2 * rows).bitcast(DType::uint64); }
  Array token_row(int64_t i) const { return block.narrow(0, 2 * rows + i * tokens, tokens); }
  Array field(Field f) const { return block.narrow(0, 2 * rows + 3 * tokens + f * rows, rows); }
  Array number(Field f) const { return field(f).bitcast(DType::float32); }
};

int64_t padded_rows(int64_t rows, int64_t most) {
  return std::min(most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))));
}

}  // namespace

Step::Step(std::shared_ptr<const llm::CausalTransformer> model, PagedCache& cache, const Options& options)
    : model_(std::move(model)), cache_(cache), options_(options) {
  const int64_t rows = cache.options().max_sequences, vocab = model_->config().vocab_size;
  if (options_.max_tokens < 1)
    throw ArgumentError(kOp, "max_tokens", "be positive", std::to_string(options_.max_tokens));
  if (options_.top_logprobs < 0 || options_.top_logprobs > 256)
    throw ArgumentError(kOp, "top_logprobs", "be in [0, 256]", std::to_string(options_.top_logprobs));
  options_.max_tokens = std::max(options_.max_tokens, rows);
  options_.top_logprobs = std::min(options_.top_logprobs, vocab);
  const Device device = model_->device();
  const DType dtype = model_->dtype();
  buffers_ = llm::ForwardBuffers::allocate(model_->config(), dtype, options_.max_tokens, device);
  control_ = Array::empty({control_words(options_.max_tokens, rows)}, DType::int32, device);
  chosen_ = Array::empty({rows, model_->config().hidden_size}, dtype, device);
  logits_ = Array::empty({rows, vocab}, dtype, device);
  drawn_ = Array::empty({(2 + 2 * options_.top_logprobs) * rows}, DType::int32, device);
}

Step::Shape Step::shape_of(int64_t tokens, int64_t num_rows, bool single, std::span<const StepRow> rows) {
  Shape shape{.tokens = tokens, .rows = num_rows, .single = single, .greedy = true, .level = runtime::determinism()};
  for (const StepRow& row : rows) {
    if (row.draw == nullptr) continue;
    shape.greedy = shape.greedy && row.draw->is_greedy();
    shape.penalties = shape.penalties || row.draw->has_penalties();
    shape.bias = shape.bias || !row.draw->bias.empty();
    shape.allowed = shape.allowed || row.allowed != nullptr;
  }
  return shape;
}

void Step::upload(const Shape& shape, std::span<const int32_t> ids, std::span<const int32_t> positions,
                  std::span<const int32_t> sequences, std::span<const StepRow> rows) {
  staged_.assign(static_cast<size_t>(control_words(shape.tokens, shape.rows)), 0);
  int32_t* const tokens = staged_.data() + 2 * shape.rows;
  std::copy(ids.begin(), ids.end(), tokens);
  std::copy(positions.begin(), positions.end(), tokens + shape.tokens);
  std::fill(std::copy(sequences.begin(), sequences.end(), tokens + 2 * shape.tokens), tokens + 3 * shape.tokens, -1);
  int32_t* const fields = tokens + 3 * shape.tokens;
  const auto set = [&](Field f, size_t row, int32_t value) {
    fields[f * shape.rows + static_cast<int64_t>(row)] = value;
  };
  const auto set_number = [&](Field f, size_t row, float value) { set(f, row, std::bit_cast<int32_t>(value)); };
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = rows[i];
    if (row.draw == nullptr) continue;
    const Draw& d = *row.draw;
    staged_[2 * i] = static_cast<int32_t>(static_cast<uint32_t>(d.seed));
    staged_[2 * i + 1] = static_cast<int32_t>(static_cast<uint32_t>(d.seed >> 32));
    set(kToken, i, static_cast<int32_t>(row.token));
    set_number(kTemperature, i, d.temperature);
    set(kTopK, i, d.top_k);
    set_number(kTopP, i, d.top_p);
    set_number(kMinP, i, d.min_p);
    set_number(kRepetition, i, d.repetition);
    set_number(kFrequency, i, d.frequency);
    set_number(kPresence, i, d.presence);
    set(kPosition, i, static_cast<int32_t>(row.history.size()));
    set(kLength, i, d.has_penalties() ? static_cast<int32_t>(row.history.size()) : 0);
    set(kPrompt, i, static_cast<int32_t>(row.prompt_length));
  }
  runtime::copy_from_host(write(control_), staged_.data(), staged_.size() * sizeof(int32_t));
  if (shape.penalties) upload_history(rows);
  if (shape.bias) upload_bias(rows);
  if (shape.allowed) upload_allowed(shape, rows);
  cache_.upload();
}

void Step::prepare(const Draw& draw, bool allowed) {
  const int64_t rows = cache_.options().max_sequences;
  const auto make = [&](Array* array, int64_t width, DType dtype) {
    if (!array->defined()) *array = Array::empty({rows, width}, dtype, model_->device());
  };
  known_history_.resize(static_cast<size_t>(rows));
  if (draw.has_penalties()) make(&history_, cache_.options().max_tokens, DType::int32);
  if (!draw.bias.empty()) {
    make(&bias_ids_, Draw::kMaxBias, DType::int32);
    make(&bias_values_, Draw::kMaxBias, DType::float32);
  }
  if (allowed) make(&allowed_, words_of(model_->config().vocab_size), DType::int32);
}

void Step::upload_history(std::span<const StepRow> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].draw == nullptr || !rows[i].draw->has_penalties()) continue;
    const auto& history = rows[i].history;
    std::vector<int32_t>& known = known_history_[i];
    const auto same = static_cast<size_t>(
        std::mismatch(known.begin(), known.end(), history.begin(), history.end()).first - known.begin());
    if (same < history.size()) {
      const Array part = history_.narrow(0, static_cast<int64_t>(i), 1).narrow(1, static_cast<int64_t>(same), 1);
      runtime::copy_from_host(write(part), history.data() + same, (history.size() - same) * sizeof(int32_t));
    }
    known.assign(history.begin(), history.end());
  }
}

void Step::upload_bias(std::span<const StepRow> rows) {
  std::vector<int32_t> ids(static_cast<size_t>(bias_ids_.size()), -1);
  std::vector<float> values(ids.size(), 0.0f);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].draw == nullptr) continue;
    size_t at = i * Draw::kMaxBias;
    for (const auto& [id, value] : rows[i].draw->bias) {
      ids[at] = id;
      values[at++] = value;
    }
  }
  runtime::copy_from_host(write(bias_ids_), ids.data(), ids.size() * sizeof(int32_t));
  runtime::copy_from_host(write(bias_values_), values.data(), values.size() * sizeof(float));
}

void Step::upload_allowed(const Shape& shape, std::span<const StepRow> rows) {
  const int64_t vocab = model_->config().vocab_size, words = words_of(vocab);
  std::vector<uint32_t> bits(static_cast<size_t>(shape.rows * words), ~0u);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].allowed == nullptr) continue;
    uint32_t* const row = bits.data() + i * static_cast<size_t>(words);
    std::fill(row, row + words, 0u);
    for (const int32_t id : *rows[i].allowed) {
      if (id < 0 || id >= vocab) throw OutOfRangeError("allowed tokens", id, vocab);
      row[id / 32] |= 1u << (id % 32);
    }
  }
  runtime::copy_from_host(write(allowed_), bits.data(), bits.size() * sizeof(uint32_t));
}

void Step::issue(const Shape& shape) {
  const Control control{control_, shape.tokens, shape.rows};
  const llm::TokenBatch batch{control.token_row(0), control.token_row(1), control.token_row(2)};
  Array hidden = model_->forward(batch, cache_.layers(), buffers_.first(shape.tokens));
  if (!shape.single) {
    const Array chosen = chosen_.narrow(0, 0, shape.rows);
    hidden = embedding(hidden, control.field(kToken), &chosen);
  }
  const Array logits = logits_.narrow(0, 0, shape.rows);
  model_->logits(hidden, &logits);
  SamplingParams params;
  if (shape.greedy) {
    params.temperature = 0.0f;
  } else {
    params.temperature = control.number(kTemperature);
    params.top_k = control.field(kTopK);
    params.top_p = control.number(kTopP);
    params.min_p = control.number(kMinP);
    params.seed = PerRow<uint64_t>(control.seeds());
    params.position = control.field(kPosition);
  }
  if (shape.penalties) {
    params.repetition = control.number(kRepetition);
    params.frequency = control.number(kFrequency);
    params.presence = control.number(kPresence);
    params.history = history_.narrow(0, 0, shape.rows);
    params.history_lengths = control.field(kLength);
    params.prompt_lengths = control.field(kPrompt);
  }
  if (shape.bias) {
    params.bias_ids = bias_ids_.narrow(0, 0, shape.rows);
    params.bias_values = bias_values_.narrow(0, 0, shape.rows);
  }
  if (shape.allowed) params.allowed = allowed_.narrow(0, 0, shape.rows);
  const int64_t top = options_.top_logprobs;
  const Array tokens = drawn_.narrow(0, 0, shape.rows);
  SamplingReport report;
  if (options_.logprobs) report.logprobs = drawn_.narrow(0, shape.rows, shape.rows).bitcast(DType::float32);
  if (top > 0) {
    report.top_ids = drawn_.narrow(0, 2 * shape.rows, top * shape.rows).reshape_view({shape.rows, top});
    report.top_logprobs = drawn_.narrow(0, (2 + top) * shape.rows, top * shape.rows)
                              .bitcast(DType::float32)
                              .reshape_view({shape.rows, top});
  }
  sample(logits, params, &tokens, report);
}

runtime::Graph& Step::captured(const Shape& shape) {
  // A graph runs in the session and on the SMs of its capture: elsewhere it is captured anew.
  const auto known = std::find_if(graphs_.begin(), graphs_.end(), [&](const Captured& c) { return c.shape == shape; });
  if (known != graphs_.end() && known->graph->fits_session()) return *known->graph;
  auto graph = std::make_unique<runtime::Graph>(model_->device());
  runtime::ScopedCapture capture(*graph);
  issue(shape);
  capture.end();
  if (const auto& residence = model_->residence()) graph->join(residence->group());
  if (options_.verify) graph->verify();
  if (known == graphs_.end()) return *graphs_.emplace_back(shape, std::move(graph)).graph;
  known->graph = std::move(graph);
  return *known->graph;
}

std::vector<Drawn> Step::results(const Shape& shape, size_t rows) {
  const int64_t top = options_.top_logprobs;
  const Array part = drawn_.narrow(0, 0, (2 + 2 * top) * shape.rows);
  std::vector<int32_t> words(static_cast<size_t>(part.size()));
  to_host(words.data(), part, "generate");
  std::vector<Drawn> drawn(rows);
  const auto word = [&](int64_t i) { return words[static_cast<size_t>(i)]; };
  for (size_t i = 0; i < rows; ++i) {
    const auto row = static_cast<int64_t>(i);
    drawn[i].token = word(row);
    if (options_.logprobs) drawn[i].logprob = std::bit_cast<float>(word(shape.rows + row));
    for (int64_t j = 0; j < top; ++j)
      drawn[i].top.emplace_back(word(2 * shape.rows + row * top + j),
                                std::bit_cast<float>(word((2 + top) * shape.rows + row * top + j)));
  }
  return drawn;
}

std::vector<Drawn> Step::run(std::span<const int32_t> ids, std::span<const int32_t> positions,
                             std::span<const int32_t> sequences, std::span<const StepRow> rows) {
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens < 1 || tokens > options_.max_tokens)
    throw ArgumentError(kOp, "ids", "be 1 to " + std::to_string(options_.max_tokens), std::to_string(tokens));
  const Shape shape = shape_of(tokens, static_cast<int64_t>(rows.size()), false, rows);
  upload(shape, ids, positions, sequences, rows);
  issue(shape);
  return results(shape, rows.size());
}

std::vector<Drawn> Step::run_single(std::span<const int32_t> ids, std::span<const int32_t> positions,
                                    std::span<const StepRow> rows) {
  const int64_t padded = padded_rows(static_cast<int64_t>(rows.size()), cache_.options().max_sequences);
  const Shape shape = shape_of(padded, padded, true, rows);
  std::vector<int32_t> padded_ids(static_cast<size_t>(padded), 0), padded_positions(padded_ids),
      sequences(padded_ids.size(), -1);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].token < 0) continue;
    padded_ids[i] = ids[i];
    padded_positions[i] = positions[i];
    sequences[i] = static_cast<int32_t>(i);
  }
  upload(shape, padded_ids, padded_positions, sequences, rows);
  if (options_.graphs)
    captured(shape).replay();
  else
    issue(shape);
  return results(shape, rows.size());
}

}  // namespace gpukit::engine
