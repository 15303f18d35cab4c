"""Where Attention is imported from by the name of the file."""

from __future__ import annotations

from pygpukit._core._llm import Attention

LlamaAttention = CausalSelfAttention = Attention

__all__ = ["Attention", "CausalSelfAttention", "LlamaAttention"]
