"""Rows of embedding tables and of KV caches."""

from __future__ import annotations

from pygpukit._core import (
    embedding,
    embedding_lookup,
    embedding_lookup_batch,
    embedding_lookup_ptr,
    kv_cache_prefill,
    kv_cache_prefill_gqa,
    kv_cache_update,
    kv_cache_update_gqa,
    kv_cache_update_gqa_ptr,
    slice_rows_range_ptr,
)

__all__ = [
    "embedding",
    "embedding_lookup",
    "embedding_lookup_batch",
    "embedding_lookup_ptr",
    "kv_cache_prefill",
    "kv_cache_prefill_gqa",
    "kv_cache_update",
    "kv_cache_update_gqa",
    "kv_cache_update_gqa_ptr",
    "slice_rows_range_ptr",
]
