"""Layers of transformers as objects: views of what a model computes with."""

from __future__ import annotations

from pygpukit.llm.layers.attention import Attention, CausalSelfAttention, LlamaAttention
from pygpukit.llm.layers.block import LlamaBlock, TransformerBlock
from pygpukit.llm.layers.linear import Linear, LinearBF16, LinearFP8
from pygpukit.llm.layers.mlp import MLP, LlamaMLP
from pygpukit.llm.layers.moe import MoELayer
from pygpukit.llm.layers.norm import LayerNorm, Norm, RMSNorm
from pygpukit.llm.layers.rope import apply_rotary_pos_emb_numpy, precompute_freqs_cis
from pygpukit.llm.layers.utils import repack_linear, repack_norm, repack_weight

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
