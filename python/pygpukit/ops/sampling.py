"""Tokens drawn from logits."""

from __future__ import annotations

from pygpukit._core import (
    sample,
    sample_greedy,
    sample_multinomial,
    sample_token_gpu,
    sample_topk,
    sample_topk_to_buf_ptr,
    sample_topp,
    set_sampling_seed,
)

__all__ = [
    "sample",
    "sample_greedy",
    "sample_multinomial",
    "sample_token_gpu",
    "sample_topk",
    "sample_topk_to_buf_ptr",
    "sample_topp",
    "set_sampling_seed",
]
