#include "gpukit/models/llm/position_ids.h"

#include <numeric>
#include <utility>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/indexing/take.h"

namespace gpukit::llm {

namespace {

/// `rows` rows of a table: row start + i is that of positions[i], the others are their own.
Array table_at(const Array& table, std::span<const int64_t> positions, int64_t start, int64_t rows) {
  std::vector<int64_t> index(static_cast<size_t>(rows));
  std::iota(index.begin(), index.end(), int64_t{0});
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= table.shape(0))
      throw OutOfRangeError("position_ids", positions[i], table.shape(0));
    index[static_cast<size_t>(start) + i] = positions[i];
  }
  return take(table, from_host(index.data(), {rows}, DType::int64, table.device()), 0);
}

/// Throws OutOfRangeError when the tokens are past the end of the table.
int64_t end_of(const Array& table, std::span<const int64_t> positions, int64_t start) {
  const int64_t end = start + static_cast<int64_t>(positions.size());
  if (end > table.shape(0)) throw OutOfRangeError("position_ids", end - 1, table.shape(0));
  return end;
}

}  // namespace

AttentionLayer at_positions(const AttentionLayer& layer, std::span<const int64_t> positions, int64_t start) {
  AttentionLayer turned = layer;
  if (!layer.cos.defined()) return turned;
  const int64_t end = end_of(layer.cos, positions, start);
  turned.cos = table_at(layer.cos, positions, start, end);
  turned.sin = table_at(layer.sin, positions, start, end);
  return turned;
}

CausalTransformer at_positions(const CausalTransformer& model, std::span<const int64_t> positions, int64_t start) {
  CausalTransformer::Parts parts = model.parts();
  if (parts.position_embed.defined()) {
    end_of(parts.position_embed, positions, start);
    parts.position_embed = table_at(parts.position_embed, positions, start, parts.position_embed.shape(0));
  }
  Array cos, sin;  // layers share their tables
  for (TransformerBlock& block : parts.blocks) {
    if (!block.attn.cos.defined()) continue;
    if (!cos.defined()) {
      const AttentionLayer turned = at_positions(block.attn, positions, start);
      cos = turned.cos;
      sin = turned.sin;
    }
    block.attn.cos = cos;
    block.attn.sin = sin;
  }
  return {model.config(), std::move(parts)};
}

bool follow(std::span<const int64_t> positions, int64_t start) {
  for (size_t i = 0; i < positions.size(); ++i)
    if (positions[i] != start + static_cast<int64_t>(i)) return false;
  return true;
}

}  // namespace gpukit::llm
