"""The models of pygpukit.llm."""

from __future__ import annotations

from pygpukit.llm.models.causal import CausalTransformerModel as CausalTransformerModel

__all__ = ["CausalTransformerModel"]
