"""Tables of rotary embeddings for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpukit._core import rope_tables

__all__ = ["apply_rotary_pos_emb_numpy", "precompute_freqs_cis"]


def precompute_freqs_cis(head_dim: int, max_seq_len: int, theta: float = 10000.0) -> tuple[Any, Any]:
    """(cos, sin) as float32 [max_seq_len, head_dim], the half table twice side by side."""
    cos, sin = (table.to_numpy() for table in rope_tables(max_seq_len, head_dim, theta, device="cpu"))
    return np.concatenate([cos, cos], -1), np.concatenate([sin, sin], -1)


def apply_rotary_pos_emb_numpy(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """q [S, H, D] and k [S, Hkv, D] turned by tables [S, D], halves against each other."""

    def turned(x: Any) -> Any:
        a, b = np.split(x, 2, axis=-1)
        return x * cos[:, None, :] + np.concatenate([-b, a], axis=-1) * sin[:, None, :]

    return turned(q), turned(k)
