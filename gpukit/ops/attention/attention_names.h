// The attention of 0.2, by heads: q is [heads, queries, dim], k and v are [kv_heads, keys, dim].
#pragma once

#include <optional>

#include "gpukit/array/array.h"

namespace gpukit {

struct SdpaOptions {
  double scale = 0;  // not above 0: 1 / sqrt(dim)
  bool causal = true;
  std::optional<int64_t> keys = {};            // the first so many are held; none: all
  Array context_len = {};                      // int32 [1]: of those, in device memory
  std::optional<int64_t> first_position = {};  // of the queries; none: they are the last ones
};

Array sdpa(const char* op, const Array& q, const Array& k, const Array& v, const SdpaOptions& options,
           const Array* out = nullptr);

/// One token per sequence: q [sequences, heads, dim] over caches [pages, kv_heads, page_size, dim], of which sequence i
/// holds context_lens[i] tokens in the pages of block_tables[i].
Array paged_attention(const char* op, const Array& q, const Array& k_cache, const Array& v_cache,
                      const Array& block_tables, const Array& context_lens, double scale, const Array* out = nullptr);

}  // namespace gpukit
