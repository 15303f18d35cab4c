"""Drawing a token from logits on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpukit._core import from_numpy, sample

__all__ = ["sample_token"]


def sample_token(logits: Any, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> int:
    """A token of logits [vocab], drawn with NumPy's global generator; temperature 0 takes the likeliest.

    top_k first, then the smallest set of tokens that reaches top_p, the one that crosses it included.
    """
    row = from_numpy(np.ascontiguousarray(logits, np.float32).reshape(1, -1), device="cpu")
    uniform = from_numpy(np.random.random_sample(1).astype(np.float32).clip(0, 1 - 2**-24), device="cpu")
    return int(sample(row, temperature, top_k=top_k, top_p=top_p, uniform=uniform).item())
