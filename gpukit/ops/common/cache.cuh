// Where a KV cache keeps its tokens. Strides are in elements. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

enum class CacheKind : int32_t { float16, bfloat16, float32, float8_e4m3, int8 };

/// Where a token's keys or values lie.
struct CacheStrides {
  int64_t page, slot, head, step;
  int64_t scale_page, scale_slot, scale_head;
};

struct CacheLayout {
  CacheStrides k, v;
  int64_t pages, page_size, sequences, max_pages;  // contiguous: pages = sequences, page_size = max_tokens, max_pages 1
  int64_t table_row, table_step;                   // of the block tables
  CacheKind kind;
  int32_t paged;
};

/// The place of a token; or, where `limit` is not 0, the value `bad` that is out of range.
struct CacheSlot {
  int64_t page, slot;
  int64_t bad, limit;
};

GPUKIT_DEVICE bool in_range(int64_t value, int64_t limit) { return value >= 0 && value < limit; }
GPUKIT_DEVICE CacheSlot bad_slot(int64_t value, int64_t limit) { return {0, 0, value, limit > 0 ? limit : 1}; }

/// `sequence` is in range. Positions of paged caches are int32, so that 32 bits are enough to divide.
GPUKIT_DEVICE CacheSlot find_slot(const CacheLayout& c, const int32_t* tables, int64_t sequence, int64_t position) {
  if (!in_range(position, c.max_pages * c.page_size)) return bad_slot(position, c.max_pages * c.page_size);
  if (c.paged == 0) return {sequence, position, 0, 0};
  const uint32_t at = static_cast<uint32_t>(position);
  const uint32_t size = static_cast<uint32_t>(c.page_size < 0xffffffffll ? c.page_size : 0xffffffffll);
  const int64_t page = tables[sequence * c.table_row + int64_t{at / size} * c.table_step];
  if (!in_range(page, c.pages)) return bad_slot(page, c.pages);
  return {page, int64_t{at % size}, 0, 0};
}

}  // namespace gpukit
