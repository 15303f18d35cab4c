// Keys and values of sequences, as attention reads them.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// Paged when block_tables is defined: token t of sequence s lies at [block_tables[s][t / page_size], t % page_size].
struct KvCache {
  Array k, v;  // paged: [pages, page_size, kv_heads, dim]; contiguous: [sequences, max_tokens, kv_heads, dim]
  Array k_scale, v_scale;  // float8_e4m3: float32 [kv_heads], static; int8: float32 [pages or sequences, page_size or
                           // max_tokens, kv_heads]; else undefined
  Array block_tables;      // int32 [sequences, max_pages], or undefined
};

struct CacheLayout;  // ops/common/cache.cuh

/// The cache as kernels see it, after checks of all its arrays: on the device of `x`, which messages call `first`.
/// `written`: the op stores to it. Throws ShapeError, DTypeError, DeviceError, ArgumentError.
CacheLayout cache_layout(const char* op, const KvCache& cache, const char* first, const Array& x, bool written);

/// Throws ArgumentError where arrays that an op writes, keys, values and the scales of int8, have memory in common.
void check_cache_apart(const char* op, const KvCache& cache);

/// Copies tokens [n, heads, dim] into `cache` [pages, page_size, heads, dim] of the same dtype. Token i goes to slot
/// number slots[i], or slots[0] + i when `sequential`; slot s is [s / page_size, s % page_size]. A slot of -1 in a list
/// writes nothing; any other out of range neither, and raises OutOfRangeError at the next wait.
void store_tokens(const char* op, const Array& tokens, const Array& cache, const Array& slots, bool sequential);
/// The checks of store_tokens, for calls that store into several caches or none.
void check_store(const char* op, const Array& tokens, const Array& cache, const Array& slots, bool sequential);

}  // namespace gpukit
