#include "gpukit/models/llm/config.h"

#include <algorithm>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"

namespace gpukit::llm {

namespace {

constexpr const char* kOp = "TransformerConfig";

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

bool TransformerConfig::is_moe_layer(int64_t layer) const { return is_moe() && !contains(dense_layers, layer); }

bool TransformerConfig::has_rope(int64_t layer) const { return use_rope && !contains(no_rope_layers, layer); }

int64_t TransformerConfig::chunk(int64_t layer) const {
  return contains(unchunked_layers, layer) ? 0 : attention_chunk;
}

int64_t TransformerConfig::window(int64_t layer) const {
  return num_window_layers < 0 || layer >= num_layers - num_window_layers ? sliding_window : 0;
}

void TransformerConfig::check() const {
  const auto positive = [](const char* field, int64_t value) {
    if (value < 1) throw ArgumentError(kOp, field, "be positive", std::to_string(value));
  };
  positive("vocab_size", vocab_size);
  positive("hidden_size", hidden_size);
  positive("num_layers", num_layers);
  positive("num_heads", num_heads);
  positive("num_kv_heads", kv_heads());
  positive("intermediate_size", mlp_size());
  positive("max_position_embeddings", max_position_embeddings);
  if (head_dim < 0) throw ArgumentError(kOp, "head_dim", "be positive", std::to_string(head_dim));
  positive("head_dim", dim());
  if (num_heads % kv_heads() != 0)
    throw ArgumentError(kOp, "num_heads", "be a multiple of num_kv_heads", std::to_string(num_heads));
  if (head_dim == 0 && hidden_size % num_heads != 0)
    throw ArgumentError(kOp, "hidden_size", "be a multiple of num_heads", std::to_string(hidden_size));
  const auto finite = [](const char* field, double value, bool good) {
    if (!good || !std::isfinite(value)) throw ArgumentError(kOp, field, "be positive", std::to_string(value));
  };
  finite("norm_eps", norm_eps, norm_eps >= 0);
  finite("rope_theta", rope_theta, rope_theta > 0);
  if (!(rotary_fraction > 0 && rotary_fraction <= 1))
    throw ArgumentError(kOp, "rotary_fraction", "be in (0, 1]", std::to_string(rotary_fraction));
  if (attention_chunk < 0)
    throw ArgumentError(kOp, "attention_chunk", "not be negative", std::to_string(attention_chunk));
  if (!(floor_scale > 0)) throw ArgumentError(kOp, "floor_scale", "be positive", number_text(floor_scale));
  if (shared_expert_size < 0)
    throw ArgumentError(kOp, "shared_expert_size", "not be negative", std::to_string(shared_expert_size));
  if (sliding_window < 0) throw ArgumentError(kOp, "sliding_window", "not be negative", std::to_string(sliding_window));
  if (num_experts < 0) throw ArgumentError(kOp, "num_experts", "not be negative", std::to_string(num_experts));
  if (is_moe()) positive("moe_intermediate_size", expert_size());
  if (fp8 && (fp8->block_rows < 1 || fp8->block_columns < 1))
    throw ArgumentError(kOp, "fp8", "have blocks of positive sizes",
                        std::to_string(fp8->block_rows) + " by " + std::to_string(fp8->block_columns));
  if (int4 && int4->group_size < 1 && int4->group_size != -1)
    throw ArgumentError(kOp, "int4", "have groups of a positive size, or of -1: whole rows",
                        std::to_string(int4->group_size));
  if (is_moe() && (num_experts_per_tok < 1 || num_experts_per_tok > num_experts))
    throw ArgumentError(kOp, "num_experts_per_tok", "be in [1, " + std::to_string(num_experts) + "]",
                        std::to_string(num_experts_per_tok));
}

}  // namespace gpukit::llm
