// Positions that do not follow each other: tokens stand one after another in the cache and are turned as others would
// be.
#pragma once

#include <span>

#include "gpukit/models/llm/causal_transformer.h"

namespace gpukit::llm {

/// The layer for tokens at start, start + 1, ... of the cache whose positions are `positions`, in tables of its own.
/// Which keys a token sees follows from its place in the cache. Throws OutOfRangeError for a position that the layer
/// has not.
AttentionLayer at_positions(const AttentionLayer& layer, std::span<const int64_t> positions, int64_t start);
/// The same for all layers and the embedding of positions.
CausalTransformer at_positions(const CausalTransformer& model, std::span<const int64_t> positions, int64_t start);

/// Whether they are start, start + 1, ...
bool follow(std::span<const int64_t> positions, int64_t start);

}  // namespace gpukit::llm
