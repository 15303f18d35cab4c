"""Rows of embedding tables."""

from __future__ import annotations

from pygpukit._core import (
    embedding,
    embedding_lookup,
    embedding_lookup_batch,
    embedding_lookup_ptr,
    slice_rows_range_ptr,
)

__all__ = [
    "embedding",
    "embedding_lookup",
    "embedding_lookup_batch",
    "embedding_lookup_ptr",
    "slice_rows_range_ptr",
]
