"""Mixtures of experts."""

from __future__ import annotations

from pygpukit._core import (
    ExpertWeights,
    moe,
    moe_compute_permutation,
    moe_expand_expert_offsets,
    moe_gather,
    moe_scatter,
    moe_softmax_topk,
    moe_topk_with_indices,
)

__all__ = [
    "ExpertWeights",
    "moe",
    "moe_compute_permutation",
    "moe_expand_expert_offsets",
    "moe_gather",
    "moe_scatter",
    "moe_softmax_topk",
    "moe_topk_with_indices",
]
