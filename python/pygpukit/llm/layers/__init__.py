"""Layers of transformers as objects: views of what a model computes with."""

from __future__ import annotations

from pygpukit._core._llm import MLP, Attention, LinearBF16, LinearFP8, MoELayer, Norm, TransformerBlock
from pygpukit.llm.layers.rope import apply_rotary_pos_emb_numpy, precompute_freqs_cis
from pygpukit.llm.layers.utils import repack_linear, repack_norm, repack_weight

Linear = LinearBF16
RMSNorm = LayerNorm = Norm
CausalSelfAttention = LlamaAttention = Attention
LlamaMLP = MLP
LlamaBlock = TransformerBlock

__all__ = [
    "MLP",
    "Attention",
    "CausalSelfAttention",
    "LayerNorm",
    "Linear",
    "LinearBF16",
    "LinearFP8",
    "LlamaAttention",
    "LlamaBlock",
    "LlamaMLP",
    "MoELayer",
    "Norm",
    "RMSNorm",
    "TransformerBlock",
    "apply_rotary_pos_emb_numpy",
    "precompute_freqs_cis",
    "repack_linear",
    "repack_norm",
    "repack_weight",
]
